# The CUDA compiler, for the device half of the CUDA provider (src/providers/cuda). Presets: `cuda` builds for
# the GPUs of compute capability 9.0 (Hopper), `cuda-all` for every one since 7.5.
if(LAMINA_CUDA)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(CMAKE_CUDA_COMPILER nvcc PATHS /usr/local/cuda/bin REQUIRED)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
  endif()
  enable_language(CUDA)
  if(LAMINA_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
endif()
