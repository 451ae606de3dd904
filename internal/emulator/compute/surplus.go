package compute

import (
	"slices"
	"strconv"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// SurplusField is the field of a scale set's document with its surplus machines. Clients do not see
// it.
const SurplusField = "routekeeper.surplus"

// A scale set that overprovisions creates twice as many machines as asked, and keeps the ones that
// start first. The others are never listed as instances, but hold addresses until some time after
// the operation. Recorded subnets and interfaces show all of them, half a minute after the set was
// Succeeded.

func surplusOf(set *kernel.Resource) []string { return kernel.List(set.Body, SurplusField) }

func isSurplus(set *kernel.Resource, number int) bool {
	return slices.Contains(surplusOf(set), strconv.Itoa(number))
}

func overprovisions(set *kernel.Resource) bool {
	p := set.Properties()
	return p["overprovision"] != false && kernel.Text(p, "orchestrationMode") != "Flexible"
}

// addSurplus records the surplus machines of a set: the gaps between the new ones that it keeps. It
// returns the numbers of all surplus machines.
func (s *Compute) addSurplus(c *kernel.Call, r, old *kernel.Resource, kept []int,
	added int) (more []int) {
	if old != nil && len(surplusOf(old)) > 0 {
		r.Body[SurplusField] = kernel.CloneValue(old.Body[SurplusField])
	}
	for _, v := range surplusOf(r) {
		if number, err := strconv.Atoi(v); err == nil {
			more = append(more, number)
		}
	}
	if added == 0 || !overprovisions(r) || s.kernel.OperationTime(c) == 0 {
		return more
	}
	first := 0
	if at := len(kept) - added; at > 0 {
		first = kept[at-1] + 1
	}
	all := surplusOf(r)
	for number := first; number < max(first+2*added, kept[len(kept)-1]+1); number++ {
		if !slices.Contains(kept, number) {
			more, all = append(more, number), append(all, strconv.Itoa(number))
		}
	}
	r.Body[SurplusField] = kernel.Items(all)
	return more
}

// storedScaleSet schedules the deletion of the surplus machines.
func (s *Compute) storedScaleSet(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	if len(surplusOf(r)) > 0 {
		s.kernel.At(r.BusyUntil.Add(s.kernel.OperationTime(c)/2), func() { s.dropSurplus(r.ID) })
	}
	return nil
}

// dropSurplus deletes the surplus machines of a scale set, and releases their addresses.
func (s *Compute) dropSurplus(id arm.ID) {
	set := s.kernel.Store.Get(id)
	// the write under way schedules its own deletion
	if set == nil || set.BusyUntil.After(time.Now()) {
		return
	}
	for _, i := range s.machinesOf(set) {
		if isSurplus(set, i.Number) {
			s.release(i)
		}
	}
	delete(set.Body, SurplusField)
	s.kernel.Store.Changed(set)
}

// resumeScaleSets deletes the surplus machines of the saved state.
func (s *Compute) resumeScaleSets() {
	for _, set := range s.kernel.Store.List(arm.TypeScaleSet, "") {
		if len(surplusOf(set)) > 0 {
			s.kernel.At(set.BusyUntil, func() { s.dropSurplus(set.ID) })
		}
	}
}

// instancesOf returns the instances of a scale set, by number.
func (s *Compute) instancesOf(set *kernel.Resource) []Instance {
	return slices.DeleteFunc(s.machinesOf(set), func(i Instance) bool {
		return isSurplus(set, i.Number)
	})
}

func (s *Compute) showScaleSet(_ *kernel.Resource, doc kernel.Object, _ string) {
	delete(doc, SurplusField)
	delete(doc, machinesField)
	delete(doc, repairsField)
	s.entra.ShowAssigned(doc)
}
