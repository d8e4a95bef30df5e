# Install rules and the package for find_package(shardsolve). No path of this build is written into the package: it
# works after the prefix was moved, and its user needs neither our BLAS nor any other library of ours.
include(CMakePackageConfigHelpers)

set(package_directory "${CMAKE_INSTALL_LIBDIR}/cmake/shardsolve")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" "${PROJECT_BINARY_DIR}/generated/include/"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp")
install(TARGETS shardsolve EXPORT shardsolveTargets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(backend IN ITEMS shardsolve_cuda shardsolve_mpi)
  if(TARGET ${backend})
    install(TARGETS ${backend} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  endif()
endforeach()
if(TARGET shardsolve_cli)
  install(TARGETS shardsolve_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

install(EXPORT shardsolveTargets NAMESPACE shardsolve:: DESTINATION "${package_directory}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/shardsolveConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/shardsolveConfig.cmake"
                              INSTALL_DESTINATION "${package_directory}")
# Before 1.0 a new minor version may break the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/shardsolveConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/shardsolveConfig.cmake" "${PROJECT_BINARY_DIR}/shardsolveConfigVersion.cmake"
        DESTINATION "${package_directory}")
