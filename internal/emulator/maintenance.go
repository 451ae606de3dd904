package emulator

import (
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

const typeMaintenance = arm.TypeCluster + "/maintenanceConfigurations"

// settleMaintenance checks a maintenance configuration: there are three, each with a content of its
// own.
func (s *aks) settleMaintenance(c *call, r, old *resource) *failure {
	properties := objectAt(r.body, "properties")
	switch name := r.id.Name(); {
	case strings.EqualFold(name, "default"):
	case strings.EqualFold(name, "aksManagedAutoUpgradeSchedule"),
		strings.EqualFold(name, "aksManagedNodeOSUpgradeSchedule"):
		if objectAt(properties, "maintenanceWindow") == nil {
			return fail(http.StatusBadRequest, "InvalidParameter",
				"Required parameter maintenanceWindow is missing (null).")
		}
	default: // wording [U]
		return fail(http.StatusBadRequest, "InvalidMaintenanceConfigurationName",
			"The maintenance configuration name %s is invalid. Expected default, "+
				"aksManagedAutoUpgradeSchedule or aksManagedNodeOSUpgradeSchedule.", name)
	}
	return nil
}

// showMaintenance leaves out what maintenance configurations do not have.
func showMaintenance(r *resource, doc object, version string) {
	delete(doc, "etag")
	delete(objectAt(doc, "properties"), "provisioningState")
}
