#include "mesh/cuda_choice.hpp"

#include "mesh/cuda_architectures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shardsolve::mesh {
namespace {

using ::testing::HasSubstr;

CudaSurroundings both(int driver, std::vector<int> gpus, int jax = 0) {
  return {.driver = driver, .gpus = std::move(gpus), .jax = jax, .has_12 = true, .has_13 = true};
}

int chosen(const CudaSurroundings& surroundings) { return choose_cuda(surroundings).major; }

TEST(CudaChoice, DriverAndGpusDecideWithoutJax) {
  EXPECT_EQ(chosen(both(13000, {90})), 13);
  EXPECT_EQ(chosen(both(13010, {100, 80})), 13);
  EXPECT_EQ(chosen(both(12040, {80})), 12);
  EXPECT_EQ(chosen(both(12000, {})), 12);
  EXPECT_EQ(chosen(both(13000, {70})), 12) << "that of CUDA 13 has no code for a V100";
  EXPECT_EQ(chosen(both(13000, {70, 80})), 13) << "the V100 beside it is refused when it is used";
  EXPECT_EQ(chosen(both(0, {})), 13);
}

TEST(CudaChoice, JaxDecidesWhereItIs) {
  EXPECT_EQ(chosen(both(13000, {90}, 12)), 12);
  EXPECT_EQ(chosen(both(13000, {90}, 13)), 13);
  EXPECT_THAT(choose_cuda(both(13000, {90}, 12)).reason, HasSubstr("JAX of this process"));
}

TEST(CudaChoice, DriverTooOldForBoth_NamesBothMinimums) {
  for (const int jax : {0, 12, 13}) {
    const CudaChoice choice = choose_cuda(both(11080, {80}, jax));
    EXPECT_EQ(choice.major, 0);
    EXPECT_THAT(choice.reason, HasSubstr("up to 11.8"));
    EXPECT_THAT(choice.reason, HasSubstr("525.60"));
    EXPECT_THAT(choice.reason, HasSubstr("580.65"));
  }
}

TEST(CudaChoice, GpuBelowSm70_NamesWhatBothNeed) {
  const CudaChoice choice = choose_cuda(both(12080, {61, 60}));
  EXPECT_EQ(choice.major, 0);
  EXPECT_THAT(choice.reason, HasSubstr("compute capability 6.1"));
  EXPECT_THAT(choice.reason, HasSubstr("7.0 (V100)"));
  EXPECT_THAT(choice.reason, HasSubstr("8.0 (A100)"));
}

TEST(CudaChoice, JaxForACudaThatWeHaveNoLibraryFor_IsToldWhatToInstall) {
  CudaSurroundings only_13 = both(13000, {80}, 12);
  only_13.has_12 = false;
  EXPECT_EQ(chosen(only_13), 0);
  EXPECT_THAT(choose_cuda(only_13).reason, HasSubstr("JAX of this process is for CUDA 12"));
  EXPECT_THAT(choose_cuda(only_13).reason, HasSubstr("libshardsolve_cuda12.so"));
  EXPECT_THAT(choose_cuda(only_13).reason, HasSubstr("'jax[cuda13]'"));
  CudaSurroundings only_12 = both(13000, {80}, 13);
  only_12.has_13 = false;
  EXPECT_EQ(chosen(only_12), 0);
  EXPECT_THAT(choose_cuda(only_12).reason, HasSubstr("libshardsolve_cuda.so"));
  EXPECT_THAT(choose_cuda(only_12).reason, HasSubstr("'jax[cuda12]'"));
  EXPECT_THAT(choose_cuda(both(13000, {80}, 11)).reason, HasSubstr("CUDA 11"));
}

TEST(CudaChoice, JaxThatNeitherDriverNorGpuSuits_SaysWhichWould) {
  const CudaChoice driver = choose_cuda(both(12040, {80}, 13));
  EXPECT_EQ(driver.major, 0);
  EXPECT_THAT(driver.reason, HasSubstr("up to 12.4"));
  EXPECT_THAT(driver.reason, HasSubstr("'jax[cuda12]'"));
  const CudaChoice gpu = choose_cuda(both(13000, {100}, 12));
  EXPECT_EQ(gpu.major, 0);
  EXPECT_THAT(gpu.reason, HasSubstr("too new for the library for CUDA 12"));
  EXPECT_THAT(gpu.reason, HasSubstr("'jax[cuda13]'"));
}

TEST(CudaChoice, BuildWithOneLibrary_SaysWhyItDoesNotFit) {
  CudaSurroundings only_13 = both(12040, {80});
  only_13.has_12 = false;
  EXPECT_EQ(chosen(only_13), 0);
  EXPECT_THAT(choose_cuda(only_13).reason, HasSubstr("up to 12.4"));
  only_13.driver = 13000;
  EXPECT_EQ(chosen(only_13), 13);
  CudaSurroundings only_12 = both(13000, {80});
  only_12.has_13 = false;
  EXPECT_EQ(chosen(only_12), 12);
}

TEST(CudaArchitectures, RunWhereTheirCodeDoes) {
  EXPECT_TRUE(has_kernels("80-real 90-real", 86)) << "of the same generation";
  EXPECT_FALSE(has_kernels("86-real 90-real", 80));
  EXPECT_FALSE(has_kernels("80-real 90-real", 100));
  EXPECT_TRUE(has_kernels("80-real 90-real 100", 120)) << "from PTX";
  EXPECT_TRUE(has_kernels("70-real 80-real", 70));
  EXPECT_FALSE(has_kernels("70-real 80-real", 75)) << "64 KB of shared memory";
  EXPECT_TRUE(has_kernels("native", 90));
  EXPECT_TRUE(has_kernels("all-major", 80));
  EXPECT_FALSE(has_kernels("native", 75));
  EXPECT_FALSE(has_kernels("", 80));
}

}  // namespace
}  // namespace shardsolve::mesh
