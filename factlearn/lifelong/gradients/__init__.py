"""Per-sample parameter gradients from one ordinary backward pass, for any module.

forward.py       runs the model and leaves it as it was
tracing.py       finds the layers that use measured parameters and taps the gradient at their outputs
layers.py        a layer's parameter gradient for each sample, from its input and that gradient
convolution.py   the same for convolution weights, which take most of the time
local.py         splits the network into its layers, for the local measure
general.py       parameters used in a way that no formula covers
accumulation.py  makes each sample's gradient non-negative and adds it up
"""
