/// Names parametrised tests after the `name` of their case.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace shardsolve::testing {

/// Last argument of INSTANTIATE_TEST_SUITE_P, for cases with a member `name` of letters, digits and
/// underscores.
struct CaseName {
  template <class Case>
  std::string operator()(const ::testing::TestParamInfo<Case>& case_info) const {
    return case_info.param.name;
  }
};

}  // namespace shardsolve::testing
