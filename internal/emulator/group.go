package emulator

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
)

// deprovisioning refuses what would make or change something in a group that is being deleted
// (azure-cli#28679: 409).
func (s *resources) deprovisioning(c *call) *failure {
	if c.method == http.MethodGet || c.method == http.MethodHead || c.method == http.MethodDelete ||
		len(c.path) < 4 || !strings.EqualFold(c.path[2], "resourceGroups") {
		return nil
	}
	if group := s.kernel.store.get(arm.GroupID(c.path[1], c.path[3])); group != nil &&
		group.deleting {
		return fail(http.StatusConflict, "ResourceGroupBeingDeleted", "The resource group '%s' "+
			"is in deprovisioning state and cannot perform this operation.", group.id.Name())
	}
	return nil
}

// checkRegion refuses a group in no region that Azure has.
func (s *resources) checkRegion(c *call, r, old *resource) *failure {
	location := normalLocation(text(r.body, "location"))
	if slices.Contains(regionNames, location) {
		return nil
	}
	return fail(http.StatusBadRequest, "LocationNotAvailableForResourceGroup",
		"The provided location '%s' is not available for resource group. List of available "+
			"regions is '%s'.",
		text(r.body, "location"), strings.Join(regionNames, ","))
}

// regionNames are Azure's regions where a group can be.
var regionNames = strings.Fields(
	`centralus eastasia southeastasia eastus eastus2 westus westus2 northcentralus southcentralus
	westcentralus northeurope westeurope japaneast japanwest brazilsouth australiasoutheast australiaeast westindia southindia
	centralindia canadacentral canadaeast uksouth ukwest koreacentral koreasouth francecentral southafricanorth uaenorth
	australiacentral switzerlandnorth germanywestcentral norwayeast jioindiawest westus3 swedencentral qatarcentral polandcentral
	italynorth israelcentral mexicocentral spaincentral newzealandnorth indonesiacentral malaysiawest chilecentral austriaeast
	belgiumcentral denmarkeast centraluseuap eastus2euap francesouth southafricawest uaecentral australiacentral2 switzerlandwest
	germanynorth norwaywest jioindiacentral swedensouth brazilsoutheast brazilus eastusstg southcentralusstg`)

// deleteGroup deletes a group with all that is in it, as one long operation. What is in it is gone
// when that ends.
func (s *resources) deleteGroup(c *call, r *resource) (reply, *failure, bool) {
	if s.kernel.operationTime(c) == 0 && c.failing() == nil {
		f := s.emptyGroup(r)
		s.kernel.record(c, r.id, "delete", f)
		if f != nil {
			return reply{}, f, true
		}
		return reply{status: http.StatusOK}, nil, true
	}
	c.locationOnly = true
	if r.deleting {
		return s.kernel.acceptedUntil(c, &operation{ends: r.busyUntil}), nil, true
	}
	r.deleting, r.busyUntil = true, time.Now().Add(s.kernel.operationTime(c))
	s.kernel.store.changed(r)
	op := &operation{ends: r.busyUntil, failure: c.failing()}
	answer := s.kernel.acceptedUntil(c, op)
	s.kernel.at(op.ends, func() {
		if op.failure != nil { // a fault says so
			s.rollBack(r)
			return
		}
		op.failure = s.emptyGroup(r)
		s.kernel.keepOperation(op)
	})
	s.kernel.recordOperation(c, r.id, "delete", op)
	return answer, nil, true
}

// rollBack ends the deletion of a group that stays.
func (s *resources) rollBack(r *resource) {
	r.deleting, r.busyUntil = false, time.Time{}
	s.kernel.store.changed(r)
}

// emptyGroup removes what is in a group, who uses before what is used, and then the group.
// Something that is used from outside stays, and the group with it.
func (s *resources) emptyGroup(r *resource) *failure {
	var left []*resource
	details := []any{}
	for before := -1; before != len(left); {
		before, left, details = len(left), nil, nil
		for _, child := range s.kernel.store.below(r.id) {
			if s.kernel.store.get(child.id) != child || strings.Count(child.id.Type(), "/") > 1 {
				continue // gone with another one, or goes with its parent
			}
			if f := s.kernel.removeResource(child); f != nil {
				left = append(left, child)
				details = append(details, object{"code": f.code, "target": string(child.id),
					"message": f.message})
			}
		}
	}
	if len(left) == 0 {
		return s.kernel.removeResource(r)
	}
	s.rollBack(r)
	names := make([]string, len(left))
	for i, child := range left {
		names[i] = child.id.Type() + "/" + child.id.Name()
	}
	f := fail(http.StatusConflict, "ResourceGroupDeletionBlocked",
		"Deletion of resource group '%s' failed as resources with identifiers '%s' could not be "+
			"deleted. The provisioning state of the resource group will be rolled back. Please "+
			"check audit logs for more details.", r.id.Name(), strings.Join(names, ","))
	f.details = details
	return f
}
