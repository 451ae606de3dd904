// Package build plans AKS clusters from creation to clean-up. It says which resources a blueprint
// needs, in which order and with which bodies; which of them exist already; whether a cluster
// matches its blueprint; and what a removal deletes.
//
// It is pure: no context, clock, logger, network or files. It must not call or write anything
// (package provision does, through azure), or decide about routes (package plan does).
package build
