package prove

// Write is what a trial observed while it wrote a subnet or table.
type Write struct {
	// First is a PUT with a fresh ETag.
	First Answer
	// Answered is the ETag in the answer to that PUT, Settled the ETag of a GET after its
	// operation.
	Answered, Settled string
	// Updating: the answer's provisioningState was not Succeeded. Operation: the answer named an
	// operation. End is how that ended, "" if it was not followed.
	Updating, Operation bool
	End                 string
	// Took is the time from the PUT to its end.
	Took string
	// Stale is a PUT with the ETag from before First. Applied: it took effect.
	Stale   Answer
	Applied bool
	// Same is a PUT of the unchanged document, with the ETags before and after it.
	Same          Answer
	SameUpdating  bool
	Before, After string
}

// Shared are the ETags of resources and of their parts, read at the same moment.
type Shared struct{ Network, Subnet, Table, Route string }

// Strip is what a trial observed while a subnet lost its route table and got it back.
type Strip struct {
	// Table is the ETag of the table before, after the strip, and after the repair.
	Before, Stripped, Repaired string
	// Gone: the subnet had no table. Back: it had the table again.
	Gone, Back bool
	// Lost are the fields in which the repaired subnet differs from the original.
	Lost []string
}

func etagFacts() []Fact {
	return []Fact{
		staleFact("subnet-if-match", "subnet", trialSubnet, func(o Observed) *Write {
			return o.Subnet
		},
			sourceUnproven,
			"Two writers can overwrite each other on a guarded subnet. Use only one: keep other "+
				"tools away from it, or set guard.mode: Observe. Each repair is still read back."),
		staleFact("table-if-match", "route table", trialTable, func(o Observed) *Write {
			return o.Table
		},
			"cloud-provider-azure relies on it",
			"A sync can overwrite another writer's routes. Give each target table one writer, or "+
				"set policy: Observe for it."),
		codeFact("subnet-if-match-code", "subnet", trialSubnet,
			func(o Observed) *Write { return o.Subnet }),
		codeFact("table-if-match-code", "route table", trialTable,
			func(o Observed) *Write { return o.Table }),
		settlesFact("subnet-etag-settles", "subnet", trialSubnet,
			func(o Observed) *Write { return o.Subnet }),
		settlesFact("table-etag-settles", "route table", trialTable,
			func(o Observed) *Write { return o.Table }),
		sameFact("subnet-same-put", "subnet", trialSubnet, func(o Observed) *Write {
			return o.Subnet
		}),
		sameFact("table-same-put", "route table", trialTable, func(o Observed) *Write {
			return o.Table
		}),
		{
			Name: "shared-etag", Family: familyETags, Trial: trialShared,
			Question: "Does a network share one ETag with its subnets, and a table " +
				"with its routes?",
			Expected: "yes, so a write of one subnet makes the ETags of all subnets stale",
			Source:   sourceRecorded,
			Judged:   "GET network and GET table: the ETags in each document are compared",
			Follows:  "Azure refuses fewer writes than expected; nothing has to change.",
			judge: func(o Observed) (Verdict, string) {
				s := o.Shared
				if s == nil {
					return notMade()
				}
				switch {
				case s.Network != s.Subnet && s.Table != s.Route:
					return Differs, "both have their own ETags"
				case s.Network != s.Subnet:
					return Differs, "a subnet has its own ETag"
				case s.Table != s.Route:
					return Differs, "a route has its own ETag"
				}
				return Confirmed, "one ETag in each document"
			},
		},
		{
			Name: "strip-keeps-table-etag", Family: familyETags, Trial: trialStrip,
			Question: "Does a table keep its ETag when a subnet loses it or gets it back?",
			Expected: "yes: a strip and its repair do not disturb the cluster's cloud provider",
			Source:   sourceUnproven,
			Judged:   "the table's ETag before a strip, after it, and after the repair",
			Follows: "Each strip and each repair makes the cloud provider's cached ETag stale: " +
				"Azure refuses its writes for about 100 s, and new nodes wait for their routes. " +
				"Find out who strips the subnet (routekeeper history), and stop that first.",
			judge: func(o Observed) (Verdict, string) {
				s := o.Strip
				switch {
				case s == nil:
					return notMade()
				case !s.Gone:
					return Untested, "the subnet kept its table"
				case s.Before != s.Stripped && s.Stripped != s.Repaired:
					return Differs, "the table has a new ETag after the strip, and after the repair"
				case s.Before != s.Stripped:
					return Differs, "the table has a new ETag after the strip"
				case s.Stripped != s.Repaired:
					return Differs, "the table has a new ETag after the repair"
				}
				return Confirmed, "the table kept its ETag"
			},
		},
	}
}

// staleFact returns the fact that If-Match works.
func staleFact(
	name, what, trial string, of func(Observed) *Write, source, follows string,
) Fact {
	return Fact{
		Name: name, Family: familyETags, Trial: trial, Source: source, Follows: follows,
		Question: "Does a PUT of a " + what + " with an old ETag in If-Match fail?",
		Expected: "yes, with 412, and nothing changes",
		Judged:   "PUT with the ETag from before the last change, then GET",
		judge: func(o Observed) (Verdict, string) {
			w := of(o)
			switch {
			case w == nil:
				return notMade()
			case w.First.Status == 412:
				return Differs, "the current ETag is refused, too: " + w.First.String()
			case w.Stale.OK() && w.Applied:
				return Differs, "it was accepted, and took effect"
			case w.Stale.OK():
				return Differs, "it was accepted, and had no effect"
			case w.Stale.Status != 412:
				return Untested, "it was refused for another reason: " + w.Stale.String()
			case w.Applied:
				return Differs, "it was refused, but took effect"
			}
			return Confirmed, w.Stale.brief()
		},
	}
}

// etagMismatch is the code of a 412 (Azure's Network provider, as cloud-provider-azure reads it).
const etagMismatch = "PreconditionFailedEtagMismatch"

func codeFact(name, what, trial string, of func(Observed) *Write) Fact {
	return Fact{
		Name: name, Family: familyETags, Trial: trial,
		Question: "How does Azure refuse a " + what + " with an old ETag?",
		Expected: "status 412 with the code " + etagMismatch,
		Source:   "cloud-provider-azure's sources",
		Judged:   "the code of that answer; its text is in the recording",
		Follows:  "routekeeper uses only the status; send the recording to its maintainers.",
		judge: func(o Observed) (Verdict, string) {
			w := of(o)
			switch {
			case w == nil:
				return notMade()
			case w.First.Status == 412: // then no other PUT was sent
				return yes(w.First.Code == etagMismatch, w.First.String(), w.First.String())
			case w.Stale.OK():
				return Untested, "nothing was refused"
			}
			return yes(w.Stale.Status == 412 && w.Stale.Code == etagMismatch,
				w.Stale.String(), w.Stale.String())
		},
	}
}

func settlesFact(name, what, trial string, of func(Observed) *Write) Fact {
	return Fact{
		Name: name, Family: familyETags, Trial: trial,
		Question: "Does the ETag of a " + what + " change again when the operation of a PUT ends?",
		Expected: "yes: the next PUT cannot use the ETag of a PUT's answer",
		Source:   sourceRecorded,
		Judged:   "the ETag of a PUT's answer, and the ETag of a GET after its operation",
		Follows:  "Nothing has to change: routekeeper uses the ETag of a fresh GET.",
		judge: func(o Observed) (Verdict, string) {
			w := of(o)
			switch {
			case w == nil:
				return notMade()
			case !w.First.OK():
				return Untested, "the PUT was refused: " + w.First.String()
			case w.Answered == "":
				return Untested, "the answer of the PUT has no ETag"
			}
			return yes(w.Answered != w.Settled, "it changed again",
				"the ETag of the answer did not change")
		},
	}
}

func sameFact(name, what, trial string, of func(Observed) *Write) Fact {
	return Fact{
		Name: name, Family: familyETags, Trial: trial,
		Question: "Does a PUT that changes nothing on a " + what + " end at once, with a new ETag?",
		Expected: "yes: such a PUT makes Azure refuse another writer; routekeeper sends none",
		Source:   sourceRecorded,
		Judged: "PUT of the document as read: its provisioningState, and the ETags before and " +
			"after",
		Follows: "Nothing has to change: routekeeper sends no such PUT.",
		judge: func(o Observed) (Verdict, string) {
			w := of(o)
			switch {
			case w == nil:
				return notMade()
			case !w.Same.OK():
				return Untested, "it was refused: " + w.Same.String()
			case w.SameUpdating:
				return Differs, "it began an operation"
			}
			return yes(w.Before != w.After, "it ended at once, with a new ETag",
				"it ended at once, with the same ETag")
		},
	}
}
