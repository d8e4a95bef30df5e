# The command `shardsolve`. It uses src/io and other parts that the shared library hides, so it carries its own copy.
find_package(CLI11 2.1 REQUIRED)

shardsolve_sources(cli_sources cli)
list(FILTER cli_sources EXCLUDE REGEX "/cli/(bench|doctor)/")
if(NOT cli_sources)
  message(STATUS "cli/ has no sources: the command line tool is not built")
  return()
endif()

add_executable(shardsolve_cli ${cli_sources})
target_include_directories(shardsolve_cli PRIVATE "${PROJECT_SOURCE_DIR}/cli")
target_link_libraries(shardsolve_cli PRIVATE shardsolve_doctor shardsolve_measure shardsolve_sparse_files CLI11::CLI11)

file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
set_target_properties(
  shardsolve_cli
  PROPERTIES OUTPUT_NAME shardsolve
             RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
             # Libraries are looked up from where the program lies, so the prefix can be moved.
             INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
