package prove

import (
	"slices"
	"time"
)

// Trial is a few calls that test facts.
type Trial struct {
	Name string
	What string // what it does, in one line
	// Calls lists the trial's calls, without polls and repetitions.
	Calls []Call
	// Takes is roughly how long it takes in Azure.
	Takes time.Duration
	// the trials whose calls it also uses
	after []string
}

// Call is one kind of call.
type Call struct {
	Method string `json:"method"`
	What   string `json:"what"`
	Times  int    `json:"times"` // 0: as often as necessary
}

// The names of the trials.
const (
	TrialSetup         = "set-up"
	trialSubnet        = "subnet-writes"
	trialTable         = "table-writes"
	trialShared        = "shared-etags"
	trialStrip         = "strip-and-repair"
	trialUnknown       = "unknown-fields"
	trialReads         = "reads-after-writes"
	trialLimit         = "large-tables"
	trialRace          = "writers-at-once"
	trialTableOverlap  = "overlapping-table-writes"
	trialSubnetOverlap = "overlapping-subnet-writes"
	trialInterface     = "interface"
	trialInUse         = "table-in-use"
	trialNetwork       = "network-writes"
	trialRights        = "rights"
	trialActivity      = "activity-log"
	TrialCleanUp       = "clean-up"
)

// trials are in the order of execution. Trials that strain the network come late.
var trials = []Trial{
	{Name: TrialSetup, What: "make the group, a security group, two route tables and a network",
		Takes: 25 * time.Second, Calls: []Call{
			{"GET", "group", 1}, {"PUT", "group", 1}, {"PUT", "security group", 1},
			{"PUT", "route table", 2}, {"PUT", "network", 1}, {"GET", "security group", 1},
			{"GET", "route table", 2}, {"GET", "network", 1}, {"GET", "operation", 0}}},
	{Name: trialSubnet, What: "change a subnet with a fresh and with an old ETag, and write it " +
		"unchanged",
		Takes: 20 * time.Second, Calls: []Call{
			{"GET", "subnet", 4}, {"PUT", "subnet", 3}, {"GET", "operation", 0}}},
	{Name: trialTable, What: "the same with a route table", Takes: 10 * time.Second, Calls: []Call{
		{"GET", "route table", 4}, {"PUT", "route table", 3}, {"GET", "operation", 0}}},
	{Name: trialShared, What: "read the ETags of a network and a table", Takes: time.Second,
		Calls: []Call{{"GET", "network", 1}, {"GET", "route table", 1}}},
	{Name: trialStrip, What: "take a table off a subnet, and put it back", Takes: 20 * time.Second,
		Calls: []Call{{"GET", "subnet", 3}, {"PUT", "subnet", 2}, {"GET", "route table", 3},
			{"GET", "operation", 0}}},
	{Name: trialUnknown, What: "write fields that no api-version has", Takes: 20 * time.Second,
		Calls: []Call{{"GET", "subnet", 3}, {"PUT", "subnet", 2}, {"GET", "route table", 3},
			{"PUT", "route table", 2}, {"GET", "operation", 0}}},
	{Name: trialReads, What: "write a table five times, and read it at once each time",
		Takes: 30 * time.Second,
		Calls: []Call{{"GET", "route table", 30}, {"PUT", "route table", 5},
			{"GET", "route tables", 5},
			{"GET", "operation", 0}}},
	{Name: trialRace, What: "write a table twice at once, and two subnets at once",
		Takes: 30 * time.Second,
		Calls: []Call{{"GET", "route table", 2}, {"PUT", "route table", 2}, {"GET", "subnet", 4},
			{"PUT", "subnet", 2}, {"GET", "operation", 0}}},
	{Name: trialLimit, What: "write a table of 400 routes, and of 401", Takes: 30 * time.Second,
		Calls: []Call{{"PUT", "route table", 2}, {"GET", "route table", 2},
			{"GET", "operation", 0}}},
	{Name: trialTableOverlap, What: "write the large table while a write of it is running",
		Takes: 25 * time.Second, Calls: []Call{
			{"GET", "route table", 2}, {"PUT", "route table", 2}, {"GET", "operation", 0}}},
	{Name: trialSubnetOverlap, What: "the same with a subnet", Takes: 25 * time.Second,
		Calls: []Call{
			{"GET", "subnet", 2}, {"PUT", "subnet", 2}, {"GET", "operation", 0}}},
	{Name: trialInterface, What: "make a network interface, list it, delete it",
		Takes: 20 * time.Second, Calls: []Call{{"PUT", "interface", 1}, {"GET", "interfaces", 2},
			{"GET", "interface", 1}, {"GET", "subnet", 1}, {"DELETE", "interface", 1},
			{"GET", "operation", 0}}},
	{Name: trialInUse, What: "try to delete a table that a subnet uses", Takes: 2 * time.Second,
		Calls: []Call{{"DELETE", "route table", 1}, {"GET", "subnet", 1}}},
	{Name: trialNetwork, What: "write the network without subnets, and with a subnet without its " +
		"table",
		Takes: 20 * time.Second, Calls: []Call{
			{"GET", "network", 3}, {"PUT", "network", 2}, {"GET", "operation", 0}}},
	{Name: trialRights, What: "read what this login may do, and what the keeper reads",
		Takes: 5 * time.Second, after: []string{trialSubnet, trialTable, trialStrip,
			trialInterface},
		Calls: []Call{{"GET", "permissions", 1}, {"GET", "locks", 1},
			{"GET", "role assignments", 1},
			{"GET", "role definitions", 1}, {"GET", "deny assignments", 1}, {"GET", "clusters", 1},
			{"GET", "scale sets", 1}, {"GET", "application gateways", 1}}},
	{Name: trialActivity, What: "wait until the activity log shows the writes",
		after: []string{trialStrip}, Calls: []Call{{"GET", "activity log", 0}}},
	{Name: TrialCleanUp, What: "delete the group, and check that it is gone",
		Takes: 45 * time.Second,
		Calls: []Call{{"GET", "group", 0}, {"GET", "resources", 1}, {"DELETE", "group", 1},
			{"GET", "operation", 0}}},
}

// Trials returns the trials that facts need, in order.
func Trials(facts []Fact) []Trial {
	wanted := map[string]bool{TrialSetup: true, TrialCleanUp: true}
	for _, f := range facts {
		wanted[f.Trial] = true
	}
	for _, t := range trials {
		if wanted[t.Name] {
			for _, name := range t.after {
				wanted[name] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(trials), func(t Trial) bool { return !wanted[t.Name] })
}

// Takes returns the total time of trials, without the wait for the activity log.
func Takes(all []Trial) time.Duration {
	var sum time.Duration
	for _, t := range all {
		sum += t.Takes
	}
	return sum
}

// Waits reports whether a trial waits for the activity log.
func Waits(all []Trial) bool {
	return slices.ContainsFunc(all, func(t Trial) bool { return t.Name == trialActivity })
}
