# lamina_module(NAME): one folder below src/ becomes one object library. Sources are globbed so that adding a
# file touches no build file. A file named *_avx2.cc, *_avx512.cc or *_avx512vnni.cc is compiled for that
# instruction set; its functions may only be called after a CPUID check. A file named *_baseline.cc is the same
# source without flags: its vectors, wider than the registers, are passed in memory, which g++ notes (psabi).
function(lamina_module name)
  cmake_parse_arguments(arg "" "" "EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(pattern IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  foreach(source IN LISTS sources)
    if(source MATCHES "_baseline\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-Wno-psabi")
    elseif(source MATCHES "_avx2\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi2")
    elseif(source MATCHES "_avx512vnni\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni")
    elseif(source MATCHES "_avx512\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx2;-mfma;-mf16c;-mbmi2;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq")
    endif()
  endforeach()
  add_library(lamina_${name} OBJECT ${sources})
  target_include_directories(lamina_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(lamina_${name} PUBLIC fmt::fmt Threads::Threads PRIVATE lamina_compiler_options)
  set_property(GLOBAL APPEND PROPERTY LAMINA_MODULES lamina_${name})
endfunction()

# A library that a module uses: found here, and again by those who use the installed package.
macro(lamina_find_package name)
  find_package(${name} REQUIRED GLOBAL ${ARGN})
  string(JOIN " " lamina_find_arguments ${name} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY LAMINA_PACKAGE_DEPENDENCIES "find_dependency(${lamina_find_arguments})")
endmacro()

# The same for a library known to pkg-config; it becomes the target PkgConfig::<prefix>.
macro(lamina_find_pkg_config prefix module)
  pkg_check_modules(${prefix} REQUIRED IMPORTED_TARGET GLOBAL ${module})
  set_property(GLOBAL APPEND PROPERTY LAMINA_PACKAGE_DEPENDENCIES
               "pkg_check_modules(${prefix} REQUIRED IMPORTED_TARGET ${module})")
endmacro()
