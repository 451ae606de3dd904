package emulator

import (
	"slices"
	"strconv"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// surplusField is where the document of a scale set keeps which of its machines go again. No client
// sees it.
const surplusField = "routekeeper.surplus"

// A scale set that overprovisions makes twice as many machines as it is to have, and keeps the ones
// that are up first. The others are never listed as instances, but hold addresses until a while
// after the operation has ended: recorded subnets and interfaces show all of them, half a minute
// after the set was Succeeded.

func surplusOf(set *resource) []any {
	all, _ := set.body[surplusField].([]any)
	return all
}

func isSurplus(set *resource, number int) bool {
	return slices.ContainsFunc(surplusOf(set), func(v any) bool {
		return v == strconv.Itoa(number)
	})
}

func overprovisions(set *resource) bool {
	p := objectAt(set.body, "properties")
	return p["overprovision"] != false && text(p, "orchestrationMode") != "Flexible"
}

// addSurplus notes the machines that a set makes too many: the gaps between the new ones that it
// keeps. more are their numbers.
func (s *compute) addSurplus(c *call, r, old *resource, kept []int, added int) (more []int) {
	if old != nil && len(surplusOf(old)) > 0 {
		r.body[surplusField] = cloneValue(old.body[surplusField])
	}
	for _, v := range surplusOf(r) {
		if number, err := strconv.Atoi(v.(string)); err == nil {
			more = append(more, number)
		}
	}
	if added == 0 || !overprovisions(r) || s.kernel.operationTime(c) == 0 {
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
	r.body[surplusField] = all
	return more
}

// storedScaleSet lets the surplus machines go when their time has come.
func (s *compute) storedScaleSet(c *call, r, old *resource) *failure {
	if len(surplusOf(r)) > 0 {
		s.kernel.at(r.busyUntil.Add(s.kernel.operationTime(c)/2), func() { s.dropSurplus(r.id) })
	}
	return nil
}

// dropSurplus takes the surplus machines of a scale set away, with their addresses.
func (s *compute) dropSurplus(id arm.ID) {
	set := s.kernel.store.get(id)
	// the write that is under way has its own time for it
	if set == nil || set.busyUntil.After(time.Now()) {
		return
	}
	for _, i := range s.machinesOf(set) {
		if !isSurplus(set, i.number) {
			continue
		}
		for _, nic := range i.nics {
			s.kernel.store.release(nic.subnet,
				addressesHeld(s.kernel.store.addressesOf(nic.subnet).by,
					i.id())...)
		}
	}
	delete(set.body, surplusField)
	s.kernel.store.changed(set)
}

// resumeScaleSets takes away the surplus machines there were when the state was kept.
func (s *compute) resumeScaleSets() {
	for _, set := range s.kernel.store.list(arm.TypeScaleSet, "") {
		if len(surplusOf(set)) > 0 {
			s.kernel.at(set.busyUntil, func() { s.dropSurplus(set.id) })
		}
	}
}

// instancesOf are the instances of a scale set, by number.
func (s *compute) instancesOf(set *resource) []instance {
	return slices.DeleteFunc(s.machinesOf(set), func(i instance) bool {
		return isSurplus(set, i.number)
	})
}

func (s *compute) showScaleSet(_ *resource, doc object, _ string) {
	delete(doc, surplusField)
	s.kernel.showAssigned(doc)
}
