package aks

import (
	"net/http"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const TypeMaintenance = arm.TypeCluster + "/maintenanceConfigurations"

// settleMaintenance checks a maintenance configuration: there are three, each with a content of its
// own.
func (s *AKS) settleMaintenance(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := kernel.ObjectAt(r.Body, "properties")
	switch name := r.ID.Name(); {
	case strings.EqualFold(name, "default"):
	case strings.EqualFold(name, "aksManagedAutoUpgradeSchedule"),
		strings.EqualFold(name, "aksManagedNodeOSUpgradeSchedule"):
		if kernel.ObjectAt(properties, "maintenanceWindow") == nil {
			return kernel.Fail(http.StatusBadRequest, "InvalidParameter",
				"Required parameter maintenanceWindow is missing (null).")
		}
	default: // wording [U]
		return kernel.Fail(http.StatusBadRequest, "InvalidMaintenanceConfigurationName",
			"The maintenance configuration name %s is invalid. Expected default, "+
				"aksManagedAutoUpgradeSchedule or aksManagedNodeOSUpgradeSchedule.", name)
	}
	return nil
}

// showMaintenance leaves out what maintenance configurations do not have.
func showMaintenance(r *kernel.Resource, doc kernel.Object, version string) {
	delete(doc, "etag")
	delete(kernel.ObjectAt(doc, "properties"), "provisioningState")
}
