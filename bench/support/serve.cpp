#include "bench/support/serve.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <iostream>
#include <map>
#include <sstream>

namespace shardsolve::bench {

void add_problem_options(CLI::App& app, ProblemOptions& options) {
  std::map<std::string, Dtype> dtypes;
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
    dtypes.emplace(name(dtype), dtype);
  }
  app.add_option("--n", options.n, "Size of the matrix")->check(CLI::PositiveNumber);
  app.add_option("--dtype", options.dtype, "float32, float64, complex64 or complex128")
      ->transform(CLI::CheckedTransformer(dtypes));
}

void refuse(const Request& request) {
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("'{} {}' asked for; this program knows the jobs that its first line names",
                  request.job, request.argument));
}

nlohmann::json timed(double seconds, const std::vector<Residual>& residuals) {
  nlohmann::json answer{{"seconds", seconds}, {"residuals", nlohmann::json::array()}};
  for (const Residual& residual : residuals) {
    answer["residuals"].push_back(
        {{"name", residual.name}, {"value", residual.value}, {"limit", residual.limit}});
  }
  return answer;
}

double time(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void serve(const nlohmann::json& hello, const std::function<nlohmann::json(const Request&)>& answer,
           bool speaks) {
  const auto say = [speaks](const nlohmann::json& object) {
    if (speaks) {
      std::cout << object.dump() << std::endl;
    }
  };
  say(hello);
  std::string line;
  while (std::getline(std::cin, line)) {
    Request request;
    std::istringstream words(line);
    words >> request.job >> request.argument;
    nlohmann::json reply;
    try {
      reply = answer(request);
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    say(reply);
  }
}

}  // namespace shardsolve::bench
