package resources

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

// deprovisioning refuses writes in a group that is being deleted (azure-cli#28679: 409).
func (s *Resources) deprovisioning(c *kernel.Call) *kernel.Failure {
	if c.Method == http.MethodGet || c.Method == http.MethodHead || c.Method == http.MethodDelete ||
		len(c.Path) < 4 || !strings.EqualFold(c.Path[2], "resourceGroups") {
		return nil
	}
	if group := s.kernel.Store.Get(arm.GroupID(c.Path[1], c.Path[3])); group != nil &&
		group.Deleting {
		return kernel.Fail(http.StatusConflict, "ResourceGroupBeingDeleted",
			"The resource group '%s' "+
				"is in deprovisioning state and cannot perform this operation.", group.ID.Name())
	}
	return nil
}

// checkRegion refuses a group in an unknown region.
func (s *Resources) checkRegion(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	location := kernel.NormalLocation(kernel.Text(r.Body, "location"))
	if slices.Contains(regionNames, location) {
		return nil
	}
	return kernel.Bad("LocationNotAvailableForResourceGroup", "The provided location '%s' is not "+
		"available for resource group. List of available regions is '%s'.",
		kernel.Text(r.Body, "location"), strings.Join(regionNames, ","))
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

// deleteGroup deletes a group with all its resources, as one long operation. They exist until it
// ends.
func (s *Resources) deleteGroup(c *kernel.Call, r *kernel.Resource) (kernel.Reply, *kernel.Failure,
	bool) {
	if s.kernel.OperationTime(c) == 0 && c.Failing() == nil {
		f := s.emptyGroup(r)
		s.kernel.Record(c, r.ID, "delete", f)
		if f != nil {
			return kernel.Reply{}, f, true
		}
		return kernel.Reply{Status: http.StatusOK}, nil, true
	}
	c.LocationOnly = true
	if r.Deleting {
		return s.kernel.AcceptedUntil(c, &kernel.Operation{Ends: r.BusyUntil}), nil, true
	}
	r.Deleting, r.BusyUntil = true, time.Now().Add(s.kernel.OperationTime(c))
	s.kernel.Store.Changed(r)
	op := &kernel.Operation{Ends: r.BusyUntil, Failure: c.Failing()}
	answer := s.kernel.AcceptedUntil(c, op)
	s.kernel.At(op.Ends, func() {
		if op.Failure != nil { // because of a fault
			s.rollBack(r)
			return
		}
		op.Failure = s.emptyGroup(r)
		s.kernel.KeepOperation(op)
	})
	s.kernel.RecordOperation(c, r.ID, "delete", op)
	return answer, nil, true
}

// rollBack ends the deletion of a group that cannot be deleted.
func (s *Resources) rollBack(r *kernel.Resource) {
	r.Deleting, r.BusyUntil = false, time.Time{}
	s.kernel.Store.Changed(r)
}

// emptyGroup deletes the resources of a group, and then the group. A resource goes before the
// resources that it uses. A resource that is used from outside stays, and so does the group.
func (s *Resources) emptyGroup(r *kernel.Resource) *kernel.Failure {
	var left []*kernel.Resource
	details := []any{}
	for before := -1; before != len(left); {
		before, left, details = len(left), nil, nil
		for _, child := range s.kernel.Store.Below(r.ID) {
			if s.kernel.Store.Get(child.ID) != child || strings.Count(child.ID.Type(), "/") > 1 {
				continue // deleted with another one, or with its parent
			}
			if f := s.kernel.RemoveResource(child); f != nil {
				left = append(left, child)
				details = append(details,
					kernel.Object{"code": f.Code, "target": string(child.ID), "message": f.Message})
			}
		}
	}
	if len(left) == 0 {
		return s.kernel.RemoveResource(r)
	}
	s.rollBack(r)
	names := make([]string, len(left))
	for i, child := range left {
		names[i] = child.ID.Type() + "/" + child.ID.Name()
	}
	f := kernel.Fail(http.StatusConflict, "ResourceGroupDeletionBlocked",
		"Deletion of resource group '%s' failed as resources with identifiers '%s' could not be "+
			"deleted. The provisioning state of the resource group will be rolled back. Please "+
			"check audit logs for more details.", r.ID.Name(), strings.Join(names, ","))
	f.Details = details
	return f
}
