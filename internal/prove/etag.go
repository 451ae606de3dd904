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
	subnet := about(trialSubnet, func(o Observed) *Write { return o.Subnet })
	table := about(trialTable, func(o Observed) *Write { return o.Table })
	shared := about(trialShared, func(o Observed) *Shared { return o.Shared })
	strip := about(trialStrip, func(o Observed) *Strip { return o.Strip })
	return []Fact{
		subnet("subnet-if-match", staleVerdict),
		table("table-if-match", staleVerdict),
		subnet("subnet-if-match-code", codeVerdict),
		table("table-if-match-code", codeVerdict),
		subnet("subnet-etag-settles", settlesVerdict),
		table("table-etag-settles", settlesVerdict),
		subnet("subnet-same-put", unchangedPutVerdict),
		table("table-same-put", unchangedPutVerdict),
		shared("shared-etag", func(s *Shared) (Verdict, string) {
			switch {
			case s.Network != s.Subnet && s.Table != s.Route:
				return Differs, "both have their own ETags"
			case s.Network != s.Subnet:
				return Differs, "a subnet has its own ETag"
			case s.Table != s.Route:
				return Differs, "a route has its own ETag"
			}
			return Confirmed, "one ETag in each document"
		}),
		strip("strip-keeps-table-etag", func(s *Strip) (Verdict, string) {
			switch {
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
		}),
	}
}

// staleVerdict judges whether If-Match works.
func staleVerdict(w *Write) (Verdict, string) {
	switch {
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
}

// etagMismatch is the code of a 412 (Azure's Network provider, as cloud-provider-azure reads it).
const etagMismatch = "PreconditionFailedEtagMismatch"

func codeVerdict(w *Write) (Verdict, string) {
	switch {
	case w.First.Status == 412: // then no other PUT was sent
		return yes(w.First.Code == etagMismatch, w.First.String(), w.First.String())
	case w.Stale.OK():
		return Untested, "nothing was refused"
	}
	return yes(w.Stale.Status == 412 && w.Stale.Code == etagMismatch,
		w.Stale.String(), w.Stale.String())
}

func settlesVerdict(w *Write) (Verdict, string) {
	switch {
	case !w.First.OK():
		return Untested, "the PUT was refused: " + w.First.String()
	case w.Answered == "":
		return Untested, "the answer of the PUT has no ETag"
	}
	return yes(w.Answered != w.Settled, "it changed again", "the ETag of the answer did not change")
}

func unchangedPutVerdict(w *Write) (Verdict, string) {
	switch {
	case !w.Same.OK():
		return Untested, "it was refused: " + w.Same.String()
	case w.SameUpdating:
		return Differs, "it began an operation"
	}
	return yes(w.Before != w.After, "it ended at once, with a new ETag",
		"it ended at once, with the same ETag")
}
