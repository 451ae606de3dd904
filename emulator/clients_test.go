package emulator_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"routekeeper.dev/routekeeper/emulator"
)

// program runs a client and returns what it prints. The test fails if the client fails.
func program(t *testing.T, dir string, environment []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), environment...)
	out, err := c.Output()
	if failed, is := err.(*exec.ExitError); is {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestAzureCLI is a test to copy: the Azure CLI makes a group and reads the cluster's table. It
// skips the discovery of clouds because the directory's URL ends in /adfs.
func TestAzureCLI(t *testing.T) {
	if _, err := exec.LookPath("az"); err != nil {
		t.Skipf("NOT RUN: the Azure CLI is not installed here (%v)", err)
	}
	t.Parallel()
	azure := emulator.Start(t, emulator.Options{Scenario: "demo"})
	az := func(args ...string) string {
		return program(t, "", []string{"REQUESTS_CA_BUNDLE=" + azure.CAFile,
			"AZURE_CONFIG_DIR=" + filepath.Join(azure.Dir, "az"), "NO_PROXY=127.0.0.1",
			"AZURE_CORE_COLLECT_TELEMETRY=no"}, "az", args...)
	}
	az("cloud", "register", "--name", "local", "--cloud-config", fmt.Sprintf(`{"endpoints": {
		"resourceManager": %[1]q, "management": %[1]q, "activeDirectory": "%[1]s/adfs",
		"activeDirectoryResourceId": "https://management.core.windows.net/",
		"activeDirectoryGraphResourceId": "https://graph.windows.net/",
		"microsoftGraphResourceId": "%[1]s/"}}`, azure.URL))
	az("cloud", "set", "--name", "local")
	az("login", "--service-principal", "--username", azure.ClientID, "--password",
		azure.ClientSecret, "--tenant", azure.TenantID)

	az("group", "create", "--name", "made-rg", "--location", "westeurope")
	routes := az("resource", "show", "--ids", azure.Demo.ClusterTable, "--query",
		"length(properties.routes)", "--output", "tsv")

	group := "/subscriptions/" + azure.SubscriptionIDs[0] + "/resourceGroups/made-rg"
	if made := azure.Get(group, "2021-04-01"); made["location"] != "westeurope" {
		t.Errorf("the group is %v", made)
	}
	if routes != "4" {
		t.Errorf("az sees %s routes", routes)
	}
}
