# Interface target shardsolve_options: language level, warnings, sanitizers and test hooks of everything we compile.
# It is never installed, so nothing of it reaches a user of the library.
add_library(shardsolve_options INTERFACE)
target_compile_features(shardsolve_options INTERFACE cxx_std_20)

target_compile_options(
  shardsolve_options
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            # clang's -Wconversion has it, g++'s does not.
            $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
            # Designated initialisers leave the other members at their defaults on purpose.
            -Wno-missing-field-initializers
            # Products and sums are rounded one by one unless fma is written: sums in twice the precision rest on that.
            $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
            # Source names in messages do not depend on where the tree lies.
            "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(CMAKE_UNITY_BUILD)
  # Of files that are compiled together each sees the names of those before it: the builds that compile every file by
  # itself have these warnings.
  target_compile_options(shardsolve_options INTERFACE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endif()
if(SHARDSOLVE_WARNINGS_AS_ERRORS)
  target_compile_options(shardsolve_options INTERFACE -Werror)
endif()

if(SHARDSOLVE_SKIPPABLE_WAITS)
  target_compile_definitions(shardsolve_options INTERFACE SHARDSOLVE_SKIPPABLE_WAITS=1)
endif()

if(SHARDSOLVE_SANITIZE STREQUAL "thread")
  set(sanitize_flags -fsanitize=thread)
elseif(SHARDSOLVE_SANITIZE STREQUAL "address")
  set(sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(SHARDSOLVE_SANITIZE)
  message(FATAL_ERROR "SHARDSOLVE_SANITIZE is '${SHARDSOLVE_SANITIZE}'; it may be empty, 'thread' or 'address'.")
endif()
if(SHARDSOLVE_SANITIZE)
  target_compile_options(shardsolve_options INTERFACE ${sanitize_flags} -fno-omit-frame-pointer)
  target_link_options(shardsolve_options INTERFACE ${sanitize_flags})
endif()
