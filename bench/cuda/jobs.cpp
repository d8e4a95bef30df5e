#include "bench/cuda/jobs.hpp"

#include <fmt/format.h>

#include <exception>
#include <iostream>
#include <map>

namespace shardsolve::bench {

namespace {

std::string dotted(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

void add_gpu_options(CLI::App& app, GpuOptions& options) {
  const std::map<std::string, Kind> kinds{{"well_conditioned", Kind::well_conditioned},
                                          {"gaussian", Kind::gaussian}};
  add_problem_options(app, options);
  app.add_option("--devices", options.devices, "GPUs, e.g. 0,1")->delimiter(',');
  app.add_option("--matrix", options.kind,
                 "well_conditioned or gaussian, see bench/cuda/matrices.hpp")
      ->transform(CLI::CheckedTransformer(kinds));
  app.add_option("--columns", options.columns, "Right-hand sides of solve_many")
      ->check(CLI::PositiveNumber);
  app.add_option("--tile", options.tile, "Columns of a block; by default the program's choice")
      ->check(CLI::PositiveNumber);
}

nlohmann::json describe_devices(const std::vector<int>& devices) {
  nlohmann::json all = nlohmann::json::array();
  for (const int device : devices) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    all.push_back({{"device", device},
                   {"name", properties.name},
                   {"multiprocessors", properties.multiProcessorCount},
                   {"memory", properties.totalGlobalMem}});
  }
  return all;
}

nlohmann::json describe_cuda() {
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {{"cuda_driver", dotted(driver)}, {"cuda_runtime", dotted(runtime)}};
}

int run_program(int argc, char** argv, const std::string& about,
                const std::function<void(const GpuOptions&)>& serve_all) {
  CLI::App app(about + ", one run for each line that it reads; see bench/cuda/run.py");
  GpuOptions options;
  add_gpu_options(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    serve_all(options);
  } catch (const std::exception& error) {
    std::cerr << argv[0] << ": " << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace shardsolve::bench
