# cmake --install: the command, the library, its headers, and a CMake package:
#
#   find_package(lamina REQUIRED)
#   target_link_libraries(app PRIVATE lamina::lamina)
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)
install(TARGETS lamina EXPORT lamina-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
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
