package iac

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"testing"
)

// bigPlan writes a plan of n resources as `terraform show -json` does: planned values, changes and
// the state before, of virtual machines and, one in every, of a subnet with its association (all
// subnets and associations for 1). One subnet loses its table.
func bigPlan(w io.Writer, n, every int) error {
	b := bufio.NewWriterSize(w, 1<<20)
	filler := `"location":"westeurope","tags":{"team":"shop","cost":"1234"},"admin_username":"azureuser","size":"Standard_D4s_v5","os_disk":[{"caching":"ReadWrite","disk_size_gb":128,"name":"disk","storage_account_type":"Premium_LRS","diff_disk_settings":[],"security_encryption_type":""}],"identity":[{"type":"SystemAssigned","identity_ids":[],"principal_id":"00000000-0000-0000-0000-000000000000","tenant_id":"00000000-0000-0000-0000-0000000000aa"}],"source_image_reference":[{"offer":"0001-com-ubuntu-server-jammy","publisher":"Canonical","sku":"22_04-lts-gen2","version":"latest"}],"custom_data":"with \"quotes\" and { brackets ] in it","timeouts":null`
	const group = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/rg/providers/"
	one := func(i int) (kind, address, values string) {
		subnet := group + "Microsoft.Network/virtualNetworks/vnet-" + strconv.Itoa(i/200) +
			"/subnets/nodes-" + strconv.Itoa(i/2)
		const table = group + "Microsoft.Network/routeTables/nodes-rt"
		switch {
		case every > 1 && i%every > 1:
			vm := "vm-" + strconv.Itoa(i)
			return "azurerm_linux_virtual_machine", "vm", `{"id":"` + group +
				"Microsoft.Compute/virtualMachines/" + vm + `","name":"` + vm + `",` + filler + "}"
		case i%2 == 0:
			return "azurerm_subnet", "nodes",
				`{"address_prefixes":["10.0.0.0/24"],"delegation":[],"id":"` + subnet +
					`","name":"nodes-` + strconv.Itoa(i/2) + `","route_table_id":"` + table +
					`","service_endpoint":[],"timeouts":null,"virtual_network_name":"vnet-` +
					strconv.Itoa(i/200) + `"}`
		}
		return "azurerm_subnet_route_table_association", "nodes", `{"id":"` + subnet +
			`","route_table_id":"` + table + `","subnet_id":"` + subnet + `","timeouts":null}`
	}
	list := func(open, end string, each func(i int)) {
		b.WriteString(open)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			each(i)
		}
		b.WriteString(end)
	}
	head := func(i int, kind, name string) {
		module := `module.m[\"` + strconv.Itoa(i/2) + `\"]`
		b.WriteString(`{"address":"` + module + "." + kind + "." + name + `","module_address":"` +
			module + `","mode":"managed","type":"` + kind + `","name":"` + name +
			`","provider_name":"registry.terraform.io/hashicorp/azurerm"`)
	}
	state := func(i int) {
		kind, name, values := one(i)
		head(i, kind, name)
		b.WriteString(`,"schema_version":0,"values":` + values + `,"sensitive_values":{"tags":{}}}`)
	}
	b.WriteString(`{"format_version":"1.2","terraform_version":"1.11.4",`)
	list(`"planned_values":{"root_module":{"child_modules":[{"resources":[`, `]}]}},`, state)
	list(`"resource_changes":[`, `],`, func(i int) {
		kind, name, values := one(i)
		action, after := "no-op", values
		if i == 1 {
			action, after = "delete", "null"
		}
		head(i, kind, name)
		b.WriteString(`,"change":{"actions":["` + action + `"],"before":` + values + `,"after":` +
			after + `,"after_unknown":{},"before_sensitive":{"tags":{}},"after_sensitive":{"tags":{}}}}`)
	})
	list(`"prior_state":{"format_version":"1.0","terraform_version":"1.11.4","values":{"root_module":{"child_modules":[{"resources":[`, `]}]}}},`, state)
	b.WriteString(`"configuration":{"root_module":{}},"timestamp":"2026-11-21T00:06:09Z","applyable":true,"complete":true,"errored":false}`)
	return b.Flush()
}

// bigResources is the size of a plan that docs/iac.md promises to read in 150 MiB.
const bigResources = 100_000

// readBig reads a big plan while it is being written, so that only the reading takes memory.
func readBig(every int) (*Reading, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(bigPlan(w, bigResources, every)) }()
	return readPlain("plan.json", r)
}

// raced is set if the race detector is on.
var raced bool

// TestPeakMemory: a separate process reads a plan of 100,000 resources in less than 150 MiB, as the
// kernel counts it (VmHWM), including the Go runtime, with the collector's settings of iac check.
// Every resource is a subnet or an association: with one in 20, the peak is a third of that.
func TestPeakMemory(t *testing.T) {
	if os.Getenv("ROUTEKEEPER_BIG_PLAN") != "" {
		r, err := readBig(1)
		if err != nil || len(r.Effects) != 1 || r.Effects[0].Verb != Loses {
			t.Fatalf("read %+v, %v", r, err)
		}
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("peak %s kB\n", regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status)[1])
		return
	}
	if testing.Short() || runtime.GOOS != "linux" || raced {
		t.Skip("NOT RUN: it reads /proc (Linux), and memory that is not the race " +
			"detector's; go test ./... on Linux runs it")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestPeakMemory$")
	cmd.Env = append(os.Environ(), "GOGC=50", "ROUTEKEEPER_BIG_PLAN=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	peak := regexp.MustCompile(`peak (\d+) kB`).FindSubmatch(out)
	if peak == nil {
		t.Fatalf("no peak in %s", out)
	}
	kB, _ := strconv.Atoi(string(peak[1]))
	t.Logf("peak %d MiB", kB>>10)
	if kB>>10 >= 150 {
		t.Errorf("peak memory %d MiB, promised are less than 150", kB>>10)
	}
}

// BenchmarkPlan reads a plan of 100,000 resources from a file, and compares that with encoding/json
// reading it into a map.
func BenchmarkPlan(b *testing.B) {
	path := filepath.Join(b.TempDir(), "plan.json")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := bigPlan(f, bigResources, 20); err != nil {
		b.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	f.Close()
	run := func(name string, read func(io.Reader) error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(info.Size())
			b.ReportAllocs()
			for b.Loop() {
				f, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				if err := read(f); err != nil {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
	run("Read", func(r io.Reader) error { _, err := readPlain("plan.json", r); return err })
	run("EncodingJSON", func(r io.Reader) error {
		var all map[string]any
		return json.NewDecoder(bufio.NewReader(r)).Decode(&all)
	})
}
