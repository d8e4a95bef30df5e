# shardsolve_zlib: what unpacks .npz files. The static library where there is one, so that the command needs no other's
# file. The libraries that we install do not link it.
set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB QUIET)
if(NOT ZLIB_FOUND)
  set(ZLIB_USE_STATIC_LIBS OFF)
  find_package(ZLIB REQUIRED)
endif()
add_library(shardsolve_zlib INTERFACE)
target_link_libraries(shardsolve_zlib INTERFACE ZLIB::ZLIB)
