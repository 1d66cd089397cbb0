# cmake --install: the command, the library, its headers, and a CMake package:
#
#   find_package(lamina REQUIRED)
#   target_link_libraries(app PRIVATE lamina::lamina)
include(CMakePackageConfigHelpers)

# For plugins that are made from Lamina's own kernel sources (docs/providers.md): the headers of the interfaces
# between kernels and the rest, and the library. Not part of the stable interface.
set(kernel_headers ${CMAKE_INSTALL_INCLUDEDIR}/lamina_kernels)
add_library(lamina_kernels INTERFACE)
add_library(lamina::kernels ALIAS lamina_kernels)
set_target_properties(lamina_kernels PROPERTIES EXPORT_NAME kernels)
target_include_directories(lamina_kernels INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                           $<INSTALL_INTERFACE:${kernel_headers}>)
target_link_libraries(lamina_kernels INTERFACE lamina fmt::fmt)
foreach(folder base model provider)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/${folder} DESTINATION ${kernel_headers}
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/src/providers/cpu/cpu_kernels.h
        DESTINATION ${kernel_headers}/providers/cpu)
# For plugins in any language: lamina_ep.h and nothing to link.
add_library(lamina_ep INTERFACE)
add_library(lamina::ep ALIAS lamina_ep)
set_target_properties(lamina_ep PROPERTIES EXPORT_NAME ep)
target_include_directories(lamina_ep INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)
install(TARGETS lamina lamina_kernels lamina_ep EXPORT lamina-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET lamina_command)
  install(TARGETS lamina_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lamina DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/lamina)
install(EXPORT lamina-targets NAMESPACE lamina:: DESTINATION ${package_folder})

get_property(package_dependencies GLOBAL PROPERTY LAMINA_PACKAGE_DEPENDENCIES)
list(REMOVE_DUPLICATES package_dependencies)
list(JOIN package_dependencies "\n" package_dependencies)
configure_package_config_file(cmake/lamina-config.cmake.in ${PROJECT_BINARY_DIR}/lamina-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lamina-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lamina-config.cmake ${PROJECT_BINARY_DIR}/lamina-config-version.cmake
        DESTINATION ${package_folder})
