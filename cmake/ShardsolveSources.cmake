# shardsolve_sources(<variable> <directory>...): every .cpp below these directories. A directory that is missing or
# empty adds nothing; a new file is seen by the next build.
function(shardsolve_sources variable)
  set(patterns)
  foreach(directory IN LISTS ARGN)
    list(APPEND patterns "${PROJECT_SOURCE_DIR}/${directory}/*.cpp")
  endforeach()
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${patterns})
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()
