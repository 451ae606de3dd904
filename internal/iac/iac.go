// Package iac reads infrastructure code and says what it would do to associations and pod routes
// before you apply it. It reads Terraform and OpenTofu plans, state and configuration, ARM
// templates (armtemplate evaluates their expressions) and what-if results.
//
// How it works. Each format has its own file, and every format becomes the same Reading: Effects,
// which say what happens to subnets and tables, and Snapshots of the network before and after,
// which package diagnose checks. verdict.go turns effects into findings, with what is known about
// the network. *fix.go repair the code.
//
// The package is pure, and must not guess: what a file does not show is unknown.
package iac

import (
	"cmp"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/inventory"
)

// Reading is the content of one file.
type Reading struct {
	// Format is the recognised format.
	Format Format
	// Effects are what the file would do, in its order.
	Effects []Effect
	// Carriers are the subnets that carry pods or reach them, as the file itself shows: those of
	// AKS pools and of Application Gateways.
	Carriers []Carrier
	// Associations has the tables, NAT gateways and security groups that templates and manifests
	// give to subnets. Each becomes a finding if a config names a different one, or the real
	// network shows one.
	Associations []Effect
	// Open has losses of a NAT gateway or security group by code that does not show whether the
	// subnet has one. Most subnets have none, so a loss counts only if a config or the real network
	// shows it.
	Open []Effect
	// Subnets are the subnets that manifests write, with or without an effect.
	Subnets []Place
	// After is the resulting network as far as the file shows it, nil if the file shows only
	// changes. Before is the present network as far as the file shows it.
	After, Before *inventory.Snapshot
	// own has the routes that a plan has as separate resources. rewritten has the tables, by key,
	// whose inline routes it changes.
	own       ownRoutes
	rewritten map[string]bool
	// Notes tell the reader what was not understood, or cannot be seen in this kind of file.
	Notes []Note
}

// Format is a kind of file.
type Format string

// The formats, recognised by content.
const (
	TerraformPlan   Format = "terraform plan"
	TerraformState  Format = "terraform state"
	TerraformConfig Format = "terraform configuration"
	WhatIf          Format = "what-if result"
	ARMTemplate     Format = "ARM template"
	Manifests       Format = "Kubernetes manifests"
)

// Place is the place of a resource in Azure and in the code.
type Place struct {
	// ID is the resource's ID, "" if it is known only after the resource is made.
	ID arm.ID
	// Name is the resource's name; VNet is the name of a subnet's network.
	Name, VNet string
	// Address is the resource's name in the code: module.net.azurerm_virtual_network.shop["a"], or
	// resources[2].resources[0] of a template.
	Address string
	// File and Line are the place in the code, not in the plan; "" and 0 if they are unknown.
	File string
	Line int
}

// Verb is what happens.
type Verb string

// The ways to break traffic. A subnet Loses its table, NAT gateway or network security group, or
// MayLose it if the file does not show whether it has one. It gets Another. It Flaps if it has none
// for a moment and then one again. It is Recreated, without its machines, or deleted while the
// network stays. A table loses pod routes (RoutesGone).
const (
	Loses      Verb = "loses"
	MayLose    Verb = "may-lose"
	Another    Verb = "another"
	Flaps      Verb = "flaps"
	Recreated  Verb = "recreated"
	RoutesGone Verb = "routes-gone"
	// MayLoseRoutes is a table that is replaced as a whole; the file does not show whether it holds
	// pod routes.
	MayLoseRoutes Verb = "may-lose-routes"
	// Destroyed is a cluster that is deleted, and perhaps created again.
	Destroyed Verb = "destroyed"
	// Migrates is a cluster that leaves kubenet in place.
	Migrates Verb = "migrates"
	// Useless is a protection that has no effect, such as ignore_changes for an attribute that does
	// not exist.
	Useless Verb = "useless"
)

// Effect is one thing that would happen to a subnet, a table or a cluster.
type Effect struct {
	Verb Verb
	// What is the affected subnet, route table or cluster. By is the code that does it, if that is
	// something else.
	What, By Place
	// Doubt is set if the code leaves open what it writes, or whether it does. Then neither a
	// config nor the real network can make such a possible loss certain.
	Doubt bool
	// Property is what the subnet loses, "" for its route table.
	Property inventory.Property
	// Before and After are names or IDs of the subnet's table, or of what it loses, "" for none or
	// unknown.
	Before, After string
	// stated is the previous table according to the file, if the real network shows a different
	// one.
	stated string
	// Routes are the routes that RoutesGone removes; Users are the subnets with the table.
	Routes []inventory.Route
	Users  []Place
	// WithNetwork is set if a subnet is deleted together with its network.
	WithNetwork bool
	// Needs is what a migration needs and the code shows to be missing, a line each.
	Needs []string
	// How says in a few words how it happens: "the inline subnet block names no route table".
	How string
	// Fix says how to change the code.
	Fix string
	// Repair is Fix for a program, nil if a person has to decide.
	Repair *Repair
	// Left is what was in the subnet, if the same file destroys all of it. Then the loss of the
	// table does no harm. Part is set if that is not a cluster but a pool or a gateway: the subnet
	// may hold more than the file shows, so one that the user names still counts.
	Left string
	Part bool
}

// put adds effects, each to its list.
func (r *Reading) put(effects ...Effect) {
	for _, e := range effects {
		if e.Verb == MayLose && e.Property != "" && e.Before == "" {
			r.Open = append(r.Open, e)
		} else {
			r.Effects = append(r.Effects, e)
		}
	}
}

// other returns a property as an Effect has it: "" for the route table.
func other(p inventory.Property) inventory.Property {
	if p == inventory.PropertyTable {
		return ""
	}
	return p
}

// property returns what the subnet loses.
func (e Effect) property() inventory.Property { return cmp.Or(e.Property, inventory.PropertyTable) }

// Repair is a change of Terraform code that keeps what an effect would remove.
type Repair struct {
	// Address is the edited resource; Subnet names the inline block in it, or the subnet in its
	// body.
	Address, Subnet string
	// Set are attributes with their new expressions, in this order.
	Set []Setting
	// Ignore is added to ignore_changes and replaces parts of the same attribute; Drop is removed
	// from it.
	Ignore, Drop string
	// Shared is set if other instances of the same block need another table.
	Shared bool
	// Add is set if the resource does not exist: it is added next to the resource Next.
	Add  bool
	Next string
	// Import is the ID in Azure for an import block.
	Import string
}

// Setting is an attribute and its expression in HCL.
type Setting struct{ Attribute, Expression string }

// Carrier is a subnet that carries pods or must reach them, and why.
type Carrier struct {
	Place
	Why string
	// Named is set if the user names it. A carrier that was seen in Azure or in a state is still
	// listed when a plan destroys it.
	Named bool
	// Must is what a config requires of the subnet. "" is a property that it does not name. Nil
	// means that the subnet carries pods, and the loss of any property does harm.
	Must map[inventory.Property]arm.ID
}

// needs reports whether the loss of a property harms.
func (c Carrier) needs(p inventory.Property) bool {
	_, must := c.Must[p]
	return must || c.Must == nil
}

// Note is a remark about a place in the code.
type Note struct {
	Place
	Text string
	// Unknown is set if a part of the file was not understood, so that something may be missing.
	Unknown bool
	// Repair is a change of the code that resolves the note, nil if there is none.
	Repair *Repair
}
