# Lets Horovod's unmodified source package build against today's PyTorch. CMake >= 3.21 reads this file by the
# environment's CMAKE_TOOLCHAIN_FILE; launch/setup sets CHRONICA_CXX_STANDARD to the standard torch asks for,
# where Horovod itself insists on 14.
if(NOT CMAKE_CXX_COMPILER_LOADED) # first pass: as toolchain file
  set(CMAKE_PROJECT_INCLUDE "${CMAKE_CURRENT_LIST_FILE}")
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)   # parts of Horovod ask for CMake 2.8, which CMake 4 refuses
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)  # finds torch and MPI beside it, so the wheel can move
  set(CMAKE_INSTALL_RPATH "$ORIGIN/../../torch/lib" "$ORIGIN/../../nvidia/nccl/lib" "$ORIGIN/../../../.."
      "$ENV{CHRONICA_MPI_LIB}")
else() # second pass: at the end of every project(), after the compiler's module has set its options
  set(std "CMAKE_CXX$ENV{CHRONICA_CXX_STANDARD}")
  set(CMAKE_CXX14_STANDARD_COMPILE_OPTION "${${std}_STANDARD_COMPILE_OPTION}")
  set(CMAKE_CXX14_EXTENSION_COMPILE_OPTION "${${std}_EXTENSION_COMPILE_OPTION}")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -DNDEBUG") # no -g: 1.4 MB in place of 51
endif()
