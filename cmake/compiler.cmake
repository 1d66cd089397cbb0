# Compiler settings shared by every target: warnings, sanitizers, ccache.

find_program(LAMINA_CCACHE ccache)
if(LAMINA_CCACHE)
  # Worktrees of one repository share cached objects: paths are hashed relative to the source folder.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${LAMINA_CCACHE})
endif()

add_library(lamina_compiler_options INTERFACE)
target_compile_options(lamina_compiler_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees out-of-bounds copies inside std::string that do not exist (its bug 105329).
  target_compile_options(lamina_compiler_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-restrict)
endif()
if(LAMINA_WARNINGS_AS_ERRORS)
  target_compile_options(lamina_compiler_options INTERFACE -Werror)
endif()
if(LAMINA_SANITIZE)
  add_compile_options(-fsanitize=${LAMINA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # The sanitizers' instrumentation confuses g++'s flow analysis.
  add_compile_options(-Wno-maybe-uninitialized -Wno-stringop-overread)
  add_link_options(-fsanitize=${LAMINA_SANITIZE})
endif()
if(LAMINA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "LAMINA_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -g)
  add_link_options(-fsanitize=address,undefined)
endif()
# One setting for libraries and executables, so that tests can share a precompiled header.
add_compile_options($<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-fPIC>)
