package emulator

import (
	"hash/fnv"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

const typeScaleSetExtension = arm.TypeScaleSet + "/extensions"

// nextNumber is the number of the next instance of a scale set. A set that overprovisions, as is
// the default, makes twice as many as it needs and keeps some of them: the numbers have gaps
// (recorded: 0 and 2, 0 and 3, 2 and 3).
func nextNumber(set *resource, numbers []int) int {
	next := 0
	if n := len(numbers); n > 0 {
		next = numbers[n-1] + 1
	}
	if !overprovisions(set) {
		return next
	}
	h := fnv.New32a()
	h.Write([]byte(set.id.Key() + strconv.Itoa(len(numbers))))
	return max(next, 2*len(numbers)+int(h.Sum32()>>16&1))
}

// scaleSetActions are what can be asked of a scale set or of one of its instances. Nothing runs on
// the machines, so that
// most of them only take their time.
var scaleSetActions = []string{
	"start", "restart", "poweroff", "deallocate", "redeploy", "reimage", "reimageall",
	"manualupgrade", "performmaintenance", "delete",
	"setorchestrationservicestate", "extensionrollingupgrade", "osrollingupgrade",
}

// scaleSetAction answers a POST to a scale set, or to one of its instances.
func (s *compute) scaleSetAction(c *call, set *resource, parts []string) (reply, *failure) {
	action := parts[len(parts)-1]
	spot := text(objectAt(set.body, "properties", "virtualMachineProfile"), "priority") == "Spot"
	switch {
	case action == "simulateeviction" && spot:
		return s.evict(c, set, parts)
	case action == "simulateeviction":
		return reply{}, fail(
			http.StatusConflict,
			"OperationNotAllowed",
			"Operation 'simulateEviction' is allowed only for Spot Virtual Machines",
		)
	case !slices.Contains(scaleSetActions, action):
		return reply{}, notFound(c)
	}
	if f := s.kernel.busy(set.id); f != nil {
		return reply{}, f
	}
	if action == "delete" {
		sent, f := decodeObject(c.body)
		if f != nil {
			return reply{}, f
		}
		if f := s.deleteInstances(c, set, list(sent, "instanceIds")); f != nil {
			return reply{}, f
		}
	}
	s.kernel.record(c, set.id, action+"/action", nil)
	return s.kernel.accepted(c, nil), nil
}

// evict takes a spot machine away, as the policy of its set says. One that is only deallocated
// keeps what it holds.
func (s *compute) evict(c *call, set *resource, parts []string) (reply, *failure) {
	profile := objectAt(set.body, "properties", "virtualMachineProfile")
	if text(profile, "evictionPolicy") == "Delete" {
		if f := s.deleteInstances(c, set, parts[1:2]); f != nil {
			return reply{}, f
		}
	}
	return reply{status: http.StatusNoContent}, nil
}

// deleteInstances takes instances of a scale set away; "*" is all of them.
func (s *compute) deleteInstances(c *call, set *resource, numbers []string) *failure {
	if cl, p := s.findScaleSet(set.id); cl != nil {
		for _, i := range s.instancesOf(set) {
			if _, n := cl.findNode(i.computer); n != nil && numbered(numbers, i.number) {
				s.aks.removeNode(cl, p, n)
			}
		}
		s.aks.nodesChanged(cl)
		return s.aks.storeScaleSet(cl, p)
	}
	gone := 0
	for _, i := range s.instancesOf(set) {
		if !numbered(numbers, i.number) {
			continue
		}
		gone++
		for _, nic := range i.nics {
			used := s.kernel.store.addressesOf(nic.subnet)
			s.kernel.store.release(nic.subnet, addressesHeld(used.by, i.id())...)
		}
	}
	body := clone(set.body)
	if sku := objectAt(body, "sku"); sku != nil {
		sku["capacity"] = max(0, numberOf(sku, "capacity")-gone)
	}
	_, f := s.kernel.putResource(c, set.id, body)
	return f
}

func numbered(numbers []string, number int) bool {
	return slices.Contains(numbers, "*") || slices.Contains(numbers, strconv.Itoa(number))
}

// addressesHeld are the ones that a part of a resource holds.
func addressesHeld(by map[netip.Addr]arm.ID, holder arm.ID) []netip.Addr {
	var out []netip.Addr
	for a, id := range by {
		if strings.HasPrefix(id.Key(), holder.Key()+"/") {
			out = append(out, a)
		}
	}
	return out
}
