package prove

import (
	"slices"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// Trial is a few calls that test facts.
type Trial struct {
	Name string `json:"name"`
	What string `json:"what"` // what it does, in one line
	// Seconds is roughly how long it takes in Azure.
	Seconds int `json:"seconds"`
	// Calls lists the trial's calls, without polls and repetitions.
	Calls []Call   `json:"calls"`
	facts []string // that it tests, without the ones about rights
	after []string // the trials whose calls it also uses
}

// Call is one kind of call.
type Call struct {
	Method string `json:"method"`
	What   string `json:"what"`
	Times  int    `json:"times"` // 0: as often as necessary
}

// The names of the trials that others name.
const (
	TrialSetup    = "set-up"
	trialRights   = "rights"
	TrialActivity = "activity-log"
	TrialCleanUp  = "clean-up"
)

// trials are in the order of execution. Trials that strain the network come late.
var trials = []Trial{
	{Name: TrialSetup, What: "make the group, a security group, two route tables and a network",
		Seconds: 25,
		Calls: []Call{{"GET", "group", 1}, {"PUT", "group", 1}, {"PUT", "security group", 1},
			{"PUT", "route table", 2}, {"PUT", "network", 1}, {"GET", "security group", 1},
			{"GET", "route table", 2}, {"GET", "network", 1}, {"GET", "operation", 0}}},
	{Name: "subnet-writes", What: "change a subnet with a fresh and with an old ETag, and " +
		"write it unchanged",
		facts: []string{"subnet-if-match", "subnet-if-match-code", "subnet-etag-settles",
			"subnet-same-put", "subnet-operation"},
		Seconds: 20, Calls: []Call{
			{"GET", "subnet", 4}, {"PUT", "subnet", 3}, {"GET", "operation", 0}}},
	{Name: "table-writes", What: "the same with a route table",
		facts: []string{"table-if-match", "table-if-match-code", "table-etag-settles",
			"table-same-put", "table-operation"},
		Seconds: 10, Calls: []Call{
			{"GET", "route table", 4}, {"PUT", "route table", 3}, {"GET", "operation", 0}}},
	{Name: "shared-etags", What: "read the ETags of a network and a table",
		facts:   []string{"shared-etag"},
		Seconds: 1, Calls: []Call{{"GET", "network", 1}, {"GET", "route table", 1}}},
	{Name: "strip-and-repair", What: "take a table off a subnet, and put it back",
		facts:   []string{"strip", "repair", "strip-keeps-table-etag"},
		Seconds: 20, Calls: []Call{{"GET", "subnet", 3}, {"PUT", "subnet", 2},
			{"GET", "route table", 3}, {"GET", "operation", 0}}},
	{Name: "unknown-fields", What: "write fields that no api-version has",
		facts:   []string{"subnet-unknown-field", "route-unknown-field"},
		Seconds: 20, Calls: []Call{{"GET", "subnet", 3}, {"PUT", "subnet", 2},
			{"GET", "route table", 3}, {"PUT", "route table", 2}, {"GET", "operation", 0}}},
	{Name: "reads-after-writes", What: "write a table five times, and read it at once each time",
		facts:   []string{"fresh-get", "fresh-list"},
		Seconds: 30, Calls: []Call{{"GET", "route table", 30}, {"PUT", "route table", 5},
			{"GET", "route tables", 5}, {"GET", "operation", 0}}},
	{Name: "writers-at-once", What: "write a table twice at once, and two subnets at once",
		facts:   []string{"same-table", "sibling-subnets"},
		Seconds: 30, Calls: []Call{{"GET", "route table", 2}, {"PUT", "route table", 2},
			{"GET", "subnet", 4}, {"PUT", "subnet", 2}, {"GET", "operation", 0}}},
	{Name: "large-tables", What: "write a table of 400 routes, and of 401",
		facts:   []string{"full-table", "route-limit"},
		Seconds: 30, Calls: []Call{
			{"PUT", "route table", 2}, {"GET", "route table", 2}, {"GET", "operation", 0}}},
	{Name: "overlapping-table-writes",
		What:    "write the large table while a write of it is running",
		facts:   []string{"table-overlap"},
		Seconds: 25, Calls: []Call{
			{"GET", "route table", 2}, {"PUT", "route table", 2}, {"GET", "operation", 0}}},
	{Name: "overlapping-subnet-writes", What: "the same with a subnet",
		facts:   []string{"subnet-overlap"},
		Seconds: 25, Calls: []Call{
			{"GET", "subnet", 2}, {"PUT", "subnet", 2}, {"GET", "operation", 0}}},
	{Name: "interface", What: "make a network interface, list it, delete it",
		facts: []string{"interface-list", "interface-gone", "interface-in-subnet",
			"interface-at-once"},
		Seconds: 20, Calls: []Call{{"PUT", "interface", 1}, {"GET", "interfaces", 2},
			{"GET", "interface", 1}, {"GET", "subnet", 1}, {"DELETE", "interface", 1},
			{"GET", "operation", 0}}},
	{Name: "table-in-use", What: "try to delete a table that a subnet uses",
		facts:   []string{"table-in-use"},
		Seconds: 2, Calls: []Call{{"DELETE", "route table", 1}, {"GET", "subnet", 1}}},
	{Name: "network-writes", What: "write the network without subnets, and with a subnet without " +
		"its table",
		facts:   []string{"network-put-keeps-subnets", "network-put-strips"},
		Seconds: 20, Calls: []Call{
			{"GET", "network", 3}, {"PUT", "network", 2}, {"GET", "operation", 0}}},
	{Name: trialRights, What: "read what this login may do, and what the keeper reads",
		after:   []string{"subnet-writes", "table-writes", "strip-and-repair", "interface"},
		Seconds: 5, Calls: []Call{{"GET", "permissions", 1}, {"GET", "locks", 1},
			{"GET", "role assignments", 1}, {"GET", "role definitions", 1},
			{"GET", "deny assignments", 1}, {"GET", "clusters", 1}, {"GET", "scale sets", 1},
			{"GET", "application gateways", 1}}},
	{Name: TrialActivity, What: "wait until the activity log shows the writes",
		facts: []string{"log-delay", "log-correlation", "log-records", "log-caller"},
		after: []string{"strip-and-repair"}, Calls: []Call{{"GET", "activity log", 0}}},
	{Name: TrialCleanUp, What: "delete the group, and check that it is gone",
		Seconds: 45, Calls: []Call{{"GET", "group", 0}, {"GET", "resources", 1},
			{"DELETE", "group", 1}, {"GET", "operation", 0}}},
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

// Takes returns the total time of trials. The wait for the activity log counts if one of them needs
// the log.
func Takes(all []Trial, logWait time.Duration) (trials, log time.Duration) {
	for _, t := range all {
		trials += time.Duration(t.Seconds) * time.Second
		if t.Name == TrialActivity {
			log = logWait
		}
	}
	return trials, log
}

// Leftover is a throwaway group of an earlier run.
type Leftover struct {
	Group arm.ID `json:"group"`
	// Stale is true if its run has certainly ended. Otherwise another run may be using it.
	Stale   bool   `json:"stale"`
	Until   string `json:"-"` // when it is certainly stale
	Deleted bool   `json:"deleted"`
	Error   string `json:"error,omitempty"` // why it could not be deleted
}
