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
			Name: "fresh-get", Family: familyReads, Trial: trialReads,
			Question: "Does a GET right after the end of a write show the write?",
			Expected: "yes: each write is read back once", Source: sourceUnproven,
			Judged: "five writes of a table, and five GETs after each",
			Follows: "A write can look undone. routekeeper then writes again, up to three times. " +
				"Expect longer repairs, and the finding write-undone.",
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
			Name: "fresh-list", Family: familyReads, Trial: trialReads,
			Question: "Does a list right after the end of a write show the write?",
			Expected: "yes: checks read lists, and confirm by GET what they find",
			Source:   sourceUnproven,
			Judged:   "five writes of a table, and a list of its group after each",
			Follows: "A check can be late by one --interval, or see an old state that a GET " +
				"then corrects. Nothing has to change.",
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
			Name: "interface-list", Family: familyReads, Trial: trialInterface,
			Question: "Does a list show a new network interface at once, with its address?",
			Expected: "yes: a route is deleted only if complete lists lack its next hop",
			Source:   sourceUnproven,
			Judged:   "PUT of an interface, then a list of its group",
			Follows: "A list can lack the address of a new node. Set policy: UpsertOnly for " +
				"your targets, so that routes are added and updated, but not deleted.",
			judge: func(o Observed) (Verdict, string) {
				if o.Interface == nil {
					return notMade()
				}
				return yes(o.Interface.Listed, "it was listed with its address",
					"it was not listed")
			},
		},
		{
			Name: "interface-gone", Family: familyReads, Trial: trialInterface,
			Question: "Does a list lack a network interface once its deletion has ended?",
			Expected: "yes; otherwise deletes come later", Source: sourceUnproven,
			Judged:  "DELETE of an interface, then a list of its group",
			Follows: "Routes of deleted nodes stay for some more checks; nothing has to change.",
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
			Name: "interface-in-subnet", Family: familyReads, Trial: trialInterface,
			Question: "Does a subnet name the IP configurations of the interfaces in it?",
			Expected: "yes: they prove that a cluster exists if AKS does not answer",
			Source:   sourceDocumented,
			Judged:   "PUT of an interface, then GET of its subnet",
			Follows: "If AKS does not answer, a lost association is repaired only when it " +
				"answers again.",
			judge: func(o Observed) (Verdict, string) {
				if o.Interface == nil {
					return notMade()
				}
				return yes(o.Interface.InSubnet, "the subnet named it",
					"the subnet did not name it")
			},
		},
		{
			Name: "interface-at-once", Family: familyReads, Trial: trialInterface,
			Question: "Is a write of a network interface complete once Azure answers it?",
			Expected: "yes: Succeeded, without an operation", Source: sourceRecorded,
			Judged:  "provisioningState and headers of the answer",
			Follows: "Nothing has to change: routekeeper writes no interfaces.",
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
