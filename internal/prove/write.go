package prove

import (
	"fmt"
	"time"
)

// Unknown is what happened to fields that no api-version has.
type Unknown struct {
	Subnet, Route         Answer
	SubnetKept, RouteKept bool
}

// Network is the effect of PUTs of a whole network on its subnets.
type Network struct {
	// Left is the number of subnets after a PUT without subnets, Had the number before.
	Had, Left int
	// Stripped is true if a subnet lost the table that a PUT did not name.
	Stripped bool
	// Listed is the answer to the PUT that lists subnets.
	Listed Answer
}

// Limit is what a trial observed of large tables.
type Limit struct {
	Full     Answer // a table of 400 routes
	Settled  bool
	Took     time.Duration
	Over     Answer // a table of 401 routes
	OverSeen bool   // the table had that many routes afterwards
}

// FullTable is how many routes a table holds unless Azure Virtual Network Manager manages it.
const FullTable = 400

// patience is how long a write of routekeeper may take, with its operation.
const patience = 2 * time.Minute

func writeFacts() []Fact {
	return []Fact{
		{
			Name: "strip", Family: familyWrites, Trial: trialStrip,
			Question: "Does a subnet lose its route table if a PUT does not name the table?",
			Expected: "yes: this is how associations are lost", Source: "azure-cli#7210",
			Judged: "PUT of a subnet without routeTable, then GET",
			Follows: "Redeployments without routeTable do no harm here. Guarding a subnet costs " +
				"nothing, and some warnings of iac check are unnecessary.",
			judge: func(o Observed) (Verdict, string) {
				if o.Strip == nil {
					return notMade()
				}
				return yes(o.Strip.Gone, "the subnet had no table", "the subnet kept its table")
			},
		},
		{
			Name: "repair", Family: familyWrites, Trial: trialStrip,
			Question: "Does the PUT that puts a table back leave the rest of the subnet as it was?",
			Expected: "yes: security group, service endpoints and policies are unchanged",
			Source:   sourceDocumented,
			Judged:   "GET before the strip and GET after the repair, field by field",
			Follows: "A repair loses fields of your subnets: set guard.mode: Observe, and send " +
				"the recording to the maintainers.",
			judge: func(o Observed) (Verdict, string) {
				s := o.Strip
				switch {
				case s == nil:
					return notMade()
				case !s.Gone:
					return Untested, "the subnet kept its table"
				case !s.Back:
					return Differs, "the table is not back"
				}
				return yes(len(s.Lost) == 0, "every field is as before", "they differ: "+
					list(s.Lost))
			},
		},
		unknownFact("subnet-unknown-field", "subnet", func(u Unknown) (Answer, bool) {
			return u.Subnet, u.SubnetKept
		}),
		unknownFact("route-unknown-field", "route", func(u Unknown) (Answer, bool) {
			return u.Route, u.RouteKept
		}),
		{
			Name: "network-put-keeps-subnets", Family: familyWrites, Trial: trialNetwork,
			Question: "Does a PUT of a network without subnets leave its subnets alone?",
			Expected: "yes, from api-version 2023-09-01 on", Source: sourceDocumented,
			Judged: "PUT of the network without subnets, then GET of its subnets",
			Follows: "Redeployments of a network delete its subnets, and iac check does not warn " +
				"about it. List the subnets in every template.",
			judge: func(o Observed) (Verdict, string) {
				if o.Network == nil {
					return notMade()
				}
				seen := fmt.Sprintf("%d of %d subnets are left", o.Network.Left, o.Network.Had)
				return yes(o.Network.Left == o.Network.Had, seen, seen)
			},
		},
		{
			Name: "network-put-strips", Family: familyWrites, Trial: trialNetwork,
			Question: "Does a PUT of a network strip a subnet that it lists without routeTable?",
			Expected: "yes", Source: sourceDocumented,
			Judged: "PUT of the network with its subnets, one without routeTable, then GET",
			Follows: "Such redeployments do no harm here; some warnings of iac check are " +
				"unnecessary.",
			judge: func(o Observed) (Verdict, string) {
				switch {
				case o.Network == nil:
					return notMade()
				case !o.Network.Listed.OK():
					return Untested, "it was refused: " + o.Network.Listed.String()
				}
				return yes(o.Network.Stripped, "the subnet had no table",
					"the subnet kept its table")
			},
		},
		{
			Name: "full-table", Family: familyWrites, Trial: trialLimit,
			Question: fmt.Sprintf("Does a PUT of %d routes succeed, and within two minutes?",
				FullTable),
			Expected: "yes: a longer write is left to the next check",
			Source:   sourceDocumented,
			Judged:   "PUT of a new table, and the time until it is settled",
			Follows: "Set maxRoutes of your targets to the number of routes that a table holds. " +
				"If writes only take longer, routes of new nodes arrive with the next check.",
			judge: func(o Observed) (Verdict, string) {
				l := o.Limit
				switch {
				case l == nil:
					return notMade()
				case !l.Full.OK():
					return Differs, "it was refused: " + l.Full.String()
				case !l.Settled:
					return Differs, "it was not settled after " + seconds(l.Took)
				}
				return yes(l.Took <= patience, "settled after "+seconds(l.Took),
					"settled only after "+seconds(l.Took))
			},
		},
		{
			Name: "route-limit", Family: familyWrites, Trial: trialLimit,
			Question: fmt.Sprintf("Does a table refuse route %d?", FullTable+1),
			Expected: "yes: the default of maxRoutes is 400", Source: sourceDocumented,
			Judged: "PUT of one route more than 400",
			Follows: "Tables hold more here: you can raise maxRoutes of your targets to the " +
				"limit of your subscription.",
			judge: func(o Observed) (Verdict, string) {
				switch {
				case o.Limit == nil:
					return notMade()
				case !o.Limit.Full.OK():
					return Untested, "400 routes were refused already"
				case o.Limit.Over.OK():
					return yes(!o.Limit.OverSeen, "it was accepted, and 400 routes are there",
						"it was accepted")
				case o.Limit.Over.Again:
					return Untested, "it was refused for another reason: " + o.Limit.Over.String()
				}
				return Confirmed, o.Limit.Over.String()
			},
		},
		{
			Name: "table-in-use", Family: familyWrites, Trial: trialInUse,
			Question: "Does Azure refuse to delete a route table that a subnet uses?",
			Expected: "yes: before a table can be deleted, its subnets must lose it",
			Source:   sourceDocumented,
			Judged:   "DELETE of a table with an association",
			Follows:  "A table can be deleted while subnets use it: lock important tables.",
			judge: func(o Observed) (Verdict, string) {
				if o.InUse == nil {
					return notMade()
				}
				return yes(!o.InUse.OK(), o.InUse.brief(), "it was accepted")
			},
		},
		endFact("subnet-operation", "subnet", trialSubnet, func(o Observed) *Write {
			return o.Subnet
		}),
		endFact("table-operation", "route table", trialTable, func(o Observed) *Write {
			return o.Table
		}),
	}
}

func unknownFact(name, what string, of func(Unknown) (Answer, bool)) Fact {
	return Fact{
		Name: name, Family: familyWrites, Trial: trialUnknown,
		Question: "Does Azure keep an unknown field of a " + what +
			", or refuse it?",
		Expected: "it does one of both: it does not drop the field silently",
		Source:   sourceUnproven,
		Judged:   "PUT with a field that no api-version has, then GET",
		Follows: "A PUT can lose fields that its api-version does not have. routekeeper reads " +
			"and writes at one api-version, so it loses nothing that it can see; keep it up to " +
			"date.",
		judge: func(o Observed) (Verdict, string) {
			if o.Unknown == nil {
				return notMade()
			}
			answer, kept := of(*o.Unknown)
			switch {
			case answer.Again:
				return Untested, "it was refused for another reason: " + answer.String()
			case !answer.OK():
				return Confirmed, "refused: " + answer.String()
			}
			return yes(kept, "it was kept", "it was accepted, and dropped")
		},
	}
}

func endFact(name, what, trial string, of func(Observed) *Write) Fact {
	return Fact{
		Name: name, Family: familyWrites, Trial: trial,
		Question: "Does the answer to a PUT of a " + what + " say how to follow its operation?",
		Expected: "yes: in Azure-AsyncOperation; the operation ends as Succeeded",
		Source:   sourceRecorded,
		Judged:   "the headers of a PUT that answers Updating, and the end of its operation",
		Follows: "routekeeper then reads the resource until it is settled: repairs take a little " +
			"longer.",
		judge: func(o Observed) (Verdict, string) {
			w := of(o)
			switch {
			case w == nil:
				return notMade()
			case !w.First.OK():
				return Untested, "the PUT was refused: " + w.First.String()
			case !w.Updating && !w.Operation:
				return Untested, "the PUT ended at once"
			case !w.Operation:
				return Differs, "the answer says Updating, but names no operation"
			}
			return yes(w.End == "Succeeded", "Succeeded after "+w.Took, "its operation ended as "+
				w.End)
		},
	}
}
