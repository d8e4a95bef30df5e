/// The three jobs, from files to a report.
#pragma once

#include "report.hpp"
#include "workplace.hpp"

namespace shardsolve::cli {

/// Output files are written if and only if the outcome in the report is ok. Throws Error, and then
/// none is written either.
Report solve_job(Workplace& workplace);
Report inverse_job(Workplace& workplace);
Report logdet_job(Workplace& workplace);

}  // namespace shardsolve::cli
