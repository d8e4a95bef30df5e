# shardsolve_python_package(<variable> <package>): the directory of a package that the build's Python can import, or empty.
# A wheel build asks its isolated environment this way, and never finds what happens to be installed outside of it.
find_package(Python 3.11 COMPONENTS Interpreter REQUIRED)

function(shardsolve_python_package variable package)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "from importlib.util import find_spec; print(find_spec('${package}').submodule_search_locations[0])"
    OUTPUT_VARIABLE found
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(found "")
  endif()
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()
