package aks

import (
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/emulator/kernel"
)

const TypeMaintenance = arm.TypeCluster + "/maintenanceConfigurations"

// settleMaintenance checks a maintenance configuration: there are three, each with its own fields.
func (s *AKS) settleMaintenance(c *kernel.Call, r, old *kernel.Resource) *kernel.Failure {
	properties := r.Properties()
	switch name := r.ID.Name(); {
	case strings.EqualFold(name, "default"):
	case strings.EqualFold(name, "aksManagedAutoUpgradeSchedule"),
		strings.EqualFold(name, "aksManagedNodeOSUpgradeSchedule"):
		if kernel.ObjectAt(properties, "maintenanceWindow") == nil {
			return kernel.Bad("InvalidParameter",
				"Required parameter maintenanceWindow is missing (null).")
		}
	default: // wording [U]
		return kernel.Bad("InvalidMaintenanceConfigurationName",
			"The maintenance configuration name %s is invalid. Expected default, "+
				"aksManagedAutoUpgradeSchedule or aksManagedNodeOSUpgradeSchedule.", name)
	}
	return nil
}
