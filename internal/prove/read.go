package prove

import "fmt"

// Reads counts reads after a write that still showed the old state.
type Reads struct{ Gets, StaleGets, Lists, StaleLists int }

// Interface is what a trial observed of a network interface.
type Interface struct {
	Updating, Operation bool
	// Listed: a list right after its PUT shows it with its address. InSubnet: the subnet names it.
	// StillListed: a list after its DELETE still shows it.
	Listed, InSubnet, StillListed bool
	Deleted                       Answer
}

func readFacts() []Fact {
	return []Fact{
		{
			Name: "fresh-get", Trial: trialReads,
			judge: func(o Observed) (Verdict, string) {
				if o.Reads == nil {
					return notMade()
				}
				seen := fmt.Sprintf("%d of %d GETs showed an older state", o.Reads.StaleGets,
					o.Reads.Gets)
				return yes(o.Reads.StaleGets == 0, seen, seen)
			},
		},
		{
			Name: "fresh-list", Trial: trialReads,
			judge: func(o Observed) (Verdict, string) {
				if o.Reads == nil {
					return notMade()
				}
				seen := fmt.Sprintf("%d of %d lists showed an older state", o.Reads.StaleLists,
					o.Reads.Lists)
				return yes(o.Reads.StaleLists == 0, seen, seen)
			},
		},
		{
			Name: "interface-list", Trial: trialInterface,
			judge: func(o Observed) (Verdict, string) {
				if o.Interface == nil {
					return notMade()
				}
				return yes(o.Interface.Listed, "it was listed with its address",
					"it was not listed")
			},
		},
		{
			Name: "interface-gone", Trial: trialInterface,
			judge: func(o Observed) (Verdict, string) {
				switch {
				case o.Interface == nil:
					return notMade()
				case !o.Interface.Deleted.OK():
					return Untested, "the deletion was refused: " + o.Interface.Deleted.String()
				}
				return yes(!o.Interface.StillListed, "it was gone", "it was still listed")
			},
		},
		{
			Name: "interface-in-subnet", Trial: trialInterface,
			judge: func(o Observed) (Verdict, string) {
				if o.Interface == nil {
					return notMade()
				}
				return yes(o.Interface.InSubnet, "the subnet named it",
					"the subnet did not name it")
			},
		},
		{
			Name: "interface-at-once", Trial: trialInterface,
			judge: func(o Observed) (Verdict, string) {
				if o.Interface == nil {
					return notMade()
				}
				return yes(!o.Interface.Updating && !o.Interface.Operation,
					"it was Succeeded at once", "it began an operation")
			},
		},
	}
}
