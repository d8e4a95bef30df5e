# shardsolve_types_by_name(<target>...): exceptions thrown in one of these shared libraries can be caught in another.
# Built by zig (manylinux_2_28.cmake) each has a C++ runtime of its own inside, and a libc++ on Linux takes two types for
# one only if their type_info is: an Error of libshardsolve_cuda.so would not be an Error in libshardsolve_jax.so. libc++ has
# a switch for that, by which names are compared, as libstdc++ always does. It is built into the one file of the runtime that
# compares types; compiled here with the switch and linked first, it takes the place of zig's.
function(shardsolve_types_by_name)
  if(NOT SHARDSOLVE_ZIG_PACKAGE)
    return()
  endif()
  if(NOT TARGET shardsolve_type_comparison)
    set(abi "${SHARDSOLVE_ZIG_PACKAGE}/lib/libcxxabi")
    add_library(shardsolve_type_comparison OBJECT "${abi}/src/private_typeinfo.cpp")
    set_target_properties(shardsolve_type_comparison PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
    target_compile_features(shardsolve_type_comparison PRIVATE cxx_std_20)
    target_compile_definitions(shardsolve_type_comparison PRIVATE _LIBCPP_TYPEINFO_COMPARISON_IMPLEMENTATION=2)
    target_include_directories(shardsolve_type_comparison PRIVATE "${abi}/include")
  endif()
  foreach(target IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE shardsolve_type_comparison)
  endforeach()
endfunction()
