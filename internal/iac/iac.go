// Package iac reads infrastructure code and says what it would do to the associations and routes that pods live by, before it does it:
// Terraform and OpenTofu plans, state and configuration, ARM templates (armtemplate evaluates their expressions) and what-if results.
//
// Every format becomes the same: Effects, what happens to subnets and tables on the way; and a Snapshot, what would be there afterwards, on
// which the checks of package diagnose run. A file a format. The package is pure; it guesses nothing: what a file does not show is said to be
// unknown.
package iac

import (
	"net/netip"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Reading is what one file says.
type Reading struct {
	// Format is what it was recognised as.
	Format Format
	// Effects are what it would do, in the order of the file.
	Effects []Effect
	// Carriers are the subnets that the file itself shows to carry pods, or to reach them: those of AKS pools and of Application Gateways.
	Carriers []Carrier
	// After is what would be there, as far as the file shows; nil where it shows changes only. Before is what is there, as far as the file shows.
	After, Before *inventory.Snapshot
	// Notes are what a person has to know about the reading: what was not understood, or cannot be seen in such a file.
	Notes []Note
}

// Format is a kind of file.
type Format string

// The formats that are recognised by content.
const (
	TerraformPlan   Format = "terraform plan"
	TerraformState  Format = "terraform state"
	TerraformConfig Format = "terraform configuration"
	WhatIf          Format = "what-if result"
	ARMTemplate     Format = "ARM template"
)

// Place says where something stands: in Azure, and in the code.
type Place struct {
	// ID is the resource's, "" where it is known only when it is made.
	ID arm.ID
	// Name is its own name; VNet, of a subnet, that of its network.
	Name, VNet string
	// Address is how the code calls it: module.net.azurerm_virtual_network.shop["a"], or resources[2].resources[0] of a template.
	Address string
	// File and Line are where it is written, "" and 0 where that is unknown. The file is that of the code, not of the plan.
	File string
	Line int
}

// Verb is what happens.
type Verb string

// The ways in which pod traffic is broken. A subnet Loses its table; MayLose it, where the file does not show whether it has one; gets Another;
// Flaps, where it has none for a moment and then one again, the same or another; is Recreated, without its machines, or deleted while the network
// stays. A table loses pod routes (RoutesGone).
const (
	Loses      Verb = "loses"
	MayLose    Verb = "may-lose"
	Another    Verb = "another"
	Flaps      Verb = "flaps"
	Recreated  Verb = "recreated"
	RoutesGone Verb = "routes-gone"
	// MayLoseRoutes is a table that is written whole, where the file does not show whether it holds pod routes.
	MayLoseRoutes Verb = "may-lose-routes"
	// Destroyed is a cluster that is deleted, and perhaps made anew.
	Destroyed Verb = "destroyed"
	// Useless is a protection that protects nothing, such as ignore_changes of what is not there.
	Useless Verb = "useless"
)

// Effect is one thing that would happen to a subnet, a table or a cluster.
type Effect struct {
	Verb Verb
	// What it happens to: a subnet, a route table or a cluster. By says what in the code does it, where that is something else.
	What, By Place
	// Before and After are names or IDs of the subnet's table, "" for none or unknown.
	Before, After string
	// Routes are those that go, of RoutesGone; Users the subnets that have the table.
	Routes []Route
	Users  []Place
	// How says in a few words by which of the ways it happens, for a sentence: "the inline subnet block names no route table".
	How string
	// Fix says how the code is to be changed.
	Fix string
	// Repair is the same for a program, nil where this needs your decision.
	Repair *Repair
	// Left is what was in the subnet, where all of that is destroyed by the same file: nobody misses the table then. Where it is no whole cluster
	// (Part), somebody may say that more is in it, which the file does not show.
	Left string
	Part bool
}

// Repair is a change of Terraform code that keeps what an effect would take away.
type Repair struct {
	// Address is the resource that is edited; Subnet the inline block in it, or the subnet in its body, by name.
	Address, Subnet string
	// Set are attributes with the expressions that they are to have, in this order.
	Set []Setting
	// Ignore is added to ignore_changes of the lifecycle, in place of parts of the same attribute; Drop is taken out of it.
	Ignore, Drop string
	// Shared is set where other instances of the same block are to have another table than the one that is set.
	Shared bool
	// Add is set where the resource is not there, and is added beside the resource Beside.
	Add    bool
	Beside string
	// Import is the ID in Azure that the resource gets by an import block.
	Import string
}

// Setting is an attribute and its expression as it is written in HCL.
type Setting struct{ Attribute, Expression string }

// Route is a route in code.
type Route struct {
	Name   string
	Prefix netip.Prefix
	Hop    netip.Addr // zero unless it leads to an appliance
}

// Carrier is a subnet that carries pods or has to reach them, and how that is known.
type Carrier struct {
	Place
	Why string
	// Named is set where somebody names it. What is seen in Azure or in a state still stands there when a plan destroys it.
	Named bool
}

// Note is something to know, where it stands.
type Note struct {
	Place
	Text string
	// Unknown is set where a part of the file was not understood, so that something may have been missed.
	Unknown bool
	// Repair is a change of the code that makes what is noted untrue, nil where there is none.
	Repair *Repair
}
