"""Physics-informed networks on overlapping subdomains, trained by least squares."""

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._coefficients import Grid1D, Scalar
from shardsolve.fbpinn._loss import Loss
from shardsolve.fbpinn._natural_gradient import NaturalGradient, NaturalGradientOutcome
from shardsolve.fbpinn._net import ACTIVATIONS, Mlp, Net
from shardsolve.fbpinn._options import LeastSquares, LevenbergMarquardt, PlacementCosts
from shardsolve.fbpinn._outcome import Cost, Descent, Outcome, Plan, TermLoss
from shardsolve.fbpinn._parameters import Parameters
from shardsolve.fbpinn._problem import Problem
from shardsolve.fbpinn._run import Networks, Run
from shardsolve.fbpinn._terms import Boundary, Data, Interior
from shardsolve.fbpinn._train import TrainingWarning

__all__ = [
    "ACTIVATIONS",
    "Boundary",
    "Boxes",
    "Cost",
    "Data",
    "Descent",
    "Grid1D",
    "Interior",
    "LeastSquares",
    "LevenbergMarquardt",
    "Loss",
    "Mlp",
    "NaturalGradient",
    "NaturalGradientOutcome",
    "Net",
    "Networks",
    "Outcome",
    "Parameters",
    "PlacementCosts",
    "Plan",
    "Problem",
    "Run",
    "Scalar",
    "TermLoss",
    "TrainingWarning",
]
