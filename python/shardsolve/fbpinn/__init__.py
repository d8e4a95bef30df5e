"""Physics-informed networks on overlapping subdomains: by least squares, or by gradients."""

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._checkpoint import Checkpoint
from shardsolve.fbpinn._coefficients import Grid1D, NetFunction, Scalar
from shardsolve.fbpinn._files import load
from shardsolve.fbpinn._gradients import LBFGS, Adam, Optimiser, Refined
from shardsolve.fbpinn._in_windows import Windows, in_windows
from shardsolve.fbpinn._keep_compiled import keep_compiled
from shardsolve.fbpinn._loss import Loss
from shardsolve.fbpinn._measured import Link, Measured
from shardsolve.fbpinn._natural_gradient import NaturalGradient, NaturalGradientOutcome
from shardsolve.fbpinn._net import ACTIVATIONS, Mlp, Net
from shardsolve.fbpinn._options import LeastSquares, LevenbergMarquardt, PlacementCosts
from shardsolve.fbpinn._outcome import Cost, Descent, Outcome, Plan, TermLoss
from shardsolve.fbpinn._parameters import Parameters
from shardsolve.fbpinn._problem import Problem
from shardsolve.fbpinn._progress import GradientOutcome, Progress
from shardsolve.fbpinn._run import Networks, Run
from shardsolve.fbpinn._terms import Boundary, Data, Interior
from shardsolve.fbpinn._train import TrainingWarning

__all__ = [
    "ACTIVATIONS",
    "LBFGS",
    "Adam",
    "Boundary",
    "Boxes",
    "Checkpoint",
    "Cost",
    "Data",
    "Descent",
    "GradientOutcome",
    "Grid1D",
    "Interior",
    "LeastSquares",
    "LevenbergMarquardt",
    "Link",
    "Loss",
    "Measured",
    "Mlp",
    "NaturalGradient",
    "NaturalGradientOutcome",
    "Net",
    "NetFunction",
    "Networks",
    "Optimiser",
    "Outcome",
    "Parameters",
    "PlacementCosts",
    "Plan",
    "Problem",
    "Progress",
    "Refined",
    "Run",
    "Scalar",
    "TermLoss",
    "TrainingWarning",
    "Windows",
    "in_windows",
    "keep_compiled",
    "load",
]
