package compute

import (
	"hash/fnv"
	"net/http"
	"net/netip"
	"slices"
	"strconv"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const TypeScaleSetExtension = arm.TypeScaleSet + "/extensions"

// nextNumber returns the number of the next instance of a scale set. A set that overprovisions, the
// default, creates twice as many as it needs and keeps some: the numbers have gaps (recorded: 0 and
// 2, 0 and 3, 2 and 3).
func nextNumber(set *kernel.Resource, numbers []int) int {
	next := 0
	if n := len(numbers); n > 0 {
		next = numbers[n-1] + 1
	}
	if !overprovisions(set) {
		return next
	}
	h := fnv.New32a()
	h.Write([]byte(set.ID.Key() + strconv.Itoa(len(numbers))))
	return max(next, 2*len(numbers)+int(h.Sum32()>>16&1))
}

// scaleSetActions are the actions of a scale set and its instances. No machine really runs. Some
// actions change the power state that is shown and the model (machine.go), the others only take
// time.
var scaleSetActions = []string{
	"start", "restart", "poweroff", "deallocate", "redeploy", "reimage", "reimageall",
	"manualupgrade", "performmaintenance", "delete",
	"setorchestrationservicestate", "extensionrollingupgrade", "osrollingupgrade",
}

// scaleSetAction answers a POST to a scale set, or to one of its instances.
func (s *Compute) scaleSetAction(c *kernel.Call, set *kernel.Resource,
	parts []string) (kernel.Reply, *kernel.Failure) {
	action := parts[len(parts)-1]
	spot := kernel.Text(set.Body, "properties", "virtualMachineProfile", "priority") == "Spot"
	switch {
	case action == "simulateeviction" && spot:
		return s.evict(c, set, parts)
	case action == "simulateeviction":
		return kernel.Reply{}, kernel.Fail(http.StatusConflict, "OperationNotAllowed",
			"Operation 'simulateEviction' is allowed only for Spot Virtual Machines")
	case !slices.Contains(scaleSetActions, action):
		return kernel.Reply{}, kernel.NotFound(c)
	}
	if f := s.kernel.Busy(set.ID); f != nil {
		return kernel.Reply{}, f
	}
	if action == "delete" {
		sent, f := kernel.DecodeObject(c.Body)
		if f != nil {
			return kernel.Reply{}, f
		}
		if f := s.deleteInstances(c, set, kernel.List(sent, "instanceIds")); f != nil {
			return kernel.Reply{}, f
		}
	}
	s.act(c, set, action, parts)
	s.kernel.Record(c, set.ID, action+"/action", nil)
	return s.kernel.Accepted(c, nil), nil
}

// evict evicts a spot machine by its set's policy. A deallocated one keeps its addresses and disks.
func (s *Compute) evict(c *kernel.Call, set *kernel.Resource, parts []string) (kernel.Reply,
	*kernel.Failure) {
	profile := kernel.ObjectAt(set.Body, "properties", "virtualMachineProfile")
	if kernel.Text(profile, "evictionPolicy") == "Delete" {
		if f := s.deleteInstances(c, set, parts[1:2]); f != nil {
			return kernel.Reply{}, f
		}
	} else {
		s.act(c, set, "deallocate", parts)
	}
	return kernel.Reply{Status: http.StatusNoContent}, nil
}

// deleteInstances deletes instances of a scale set; "*" is all of them.
func (s *Compute) deleteInstances(c *kernel.Call, set *kernel.Resource,
	numbers []string) *kernel.Failure {
	if _, _, ours := s.Pools.PoolInstances(set); ours {
		return s.Pools.RemoveInstances(set, func(number int) bool {
			return numbered(numbers, number)
		})
	}
	s.kernel.Remember(set.ID)
	gone := 0
	for _, i := range s.instancesOf(set) {
		if !numbered(numbers, i.Number) {
			continue
		}
		gone++
		delete(kernel.ObjectAt(set.Body, machinesField), strconv.Itoa(i.Number))
		s.release(i)
	}
	body := kernel.Clone(set.Body)
	if sku := kernel.ObjectAt(body, "sku"); sku != nil {
		sku["capacity"] = max(0, kernel.NumberOf(sku, "capacity")-gone)
	}
	_, f := s.kernel.PutResource(c, set.ID, body)
	return f
}

func numbered(numbers []string, number int) bool {
	return slices.Contains(numbers, "*") || slices.Contains(numbers, strconv.Itoa(number))
}

// release releases all addresses of an instance.
func (s *Compute) release(i Instance) {
	for _, nic := range i.Nics {
		var held []netip.Addr
		for a, holder := range s.network.Addresses.Of(nic.Subnet).By {
			if kernel.PartOf(holder, i.id()) {
				held = append(held, a)
			}
		}
		s.network.Addresses.Release(nic.Subnet, held...)
	}
}
