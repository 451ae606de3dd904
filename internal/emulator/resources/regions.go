package resources

import "routekeeper.dev/routekeeper/internal/emulator/kernel"

// regions are some of Azure's: name, display name, geography, longitude, latitude, place and the
// paired region. A resource may name any other as well.
var regions = [][7]string{
	{"westeurope", "West Europe", "Europe", "4.9", "52.3667", "Netherlands", "northeurope"},
	{"northeurope", "North Europe", "Europe", "-6.2597", "53.3478", "Ireland", "westeurope"},
	{"germanywestcentral", "Germany West Central", "Europe", "8.682127", "50.110924", "Frankfurt",
		"germanynorth"},
	{"francecentral", "France Central", "Europe", "2.373", "46.3772", "Paris", "francesouth"},
	{"uksouth", "UK South", "Europe", "-0.799", "50.941", "London", "ukwest"},
	{"swedencentral", "Sweden Central", "Europe", "17.14127", "60.67488", "Gävle", "swedensouth"},
	{"eastus", "East US", "US", "-79.8164", "37.3719", "Virginia", "westus"},
	{"eastus2", "East US 2", "US", "-78.3889", "36.6681", "Virginia", "centralus"},
	{"westus2", "West US 2", "US", "-119.852", "47.233", "Washington", "westcentralus"},
	{"westus3", "West US 3", "US", "-112.074036", "33.448376", "Phoenix", "eastus"},
	{"centralus", "Central US", "US", "-93.6208", "41.5908", "Iowa", "eastus2"},
	{"southeastasia", "Southeast Asia", "Asia Pacific", "103.833", "1.283", "Singapore",
		"eastasia"},
	{"japaneast", "Japan East", "Asia Pacific", "139.77", "35.68", "Tokyo, Saitama", "japanwest"},
	{"australiaeast", "Australia East", "Asia Pacific", "151.2094", "-33.86", "New South Wales",
		"australiasoutheast"},
}

func locationsOf(subscription string) []kernel.Object {
	at := func(name string) string {
		return "/subscriptions/" + subscription + "/locations/" + name
	}
	var out []kernel.Object
	for _, l := range regions {
		out = append(out, kernel.Object{"id": at(l[0]), "name": l[0], "type": "Region",
			"displayName": l[1], "regionalDisplayName": "(" + l[2] + ") " + l[1],
			"metadata": kernel.Object{
				"regionType": "Physical", "regionCategory": "Recommended", "geographyGroup": l[2],
				"longitude": l[3], "latitude": l[4], "physicalLocation": l[5],
				"pairedRegion": []any{kernel.Object{"name": l[6], "id": at(l[6])}},
			},
		})
	}
	return out
}
