/// The three jobs, from files to a report.
#pragma once

#include "options.hpp"
#include "report.hpp"
#include "workplace.hpp"

namespace shardsolve::cli {

/// Output files are written if and only if the outcome in the report is ok. Throws Error, and then
/// none is written either.
Report solve_job(Workplace& workplace);
Report inverse_job(Workplace& workplace);
Report logdet_job(Workplace& workplace);

/// Both print what they measure and return the exit code. `progress` is taken away before. Throw
/// Error; then tune has written nothing.
int tune_job(Workplace& workplace, ProgressDisplay& progress);
int bench_job(Workplace& workplace, ProgressDisplay& progress);

/// Prints what it finds; the exit code. Takes no workplace: it is for where there may be none.
int doctor_job(const Options& options);

}  // namespace shardsolve::cli
