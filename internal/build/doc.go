// Package build plans AKS clusters from nothing to clean-up: which resources a blueprint needs, in which
// order and with which bodies, what of them is there already, whether a cluster is as its blueprint says,
// and what goes when it is removed.
//
// It is pure: no context, clock, logger, network or files. It calls nothing and writes nothing (package
// provision does, through azure), and it decides nothing about routes (that is plan).
package build
