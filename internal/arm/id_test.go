package arm

import (
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	const subnet = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/net-rg/providers/Microsoft.Network/virtualNetworks/hub/subnets/gw"
	tests := []struct {
		in                                    string
		sub, group, resourceType, name, short string
	}{
		{subnet, "11111111-1111-1111-1111-111111111111", "net-rg",
			"Microsoft.Network/virtualNetworks/subnets", "gw", "hub/gw"},
		{strings.ToUpper(subnet), "11111111-1111-1111-1111-111111111111", "NET-RG",
			"MICROSOFT.NETWORK/VIRTUALNETWORKS/SUBNETS", "GW", "HUB/GW"},
		{"/subscriptions//s/resourcegroups/rg//providers/microsoft.network/routetables/rt/", "s",
			"rg", "microsoft.network/routetables", "rt", "rt"},
		{"/subscriptions/s", "s", "", TypeSubscription, "s", "s"},
		{"/subscriptions/s/resourceGroups/rg (old).1", "s", "rg (old).1", TypeResourceGroup,
			"rg (old).1", "rg (old).1"},
		{"/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/routeTables/rt/providers/Microsoft.Authorization/locks/l",
			"s", "rg", "Microsoft.Authorization/locks", "l", "l"},
		// A group called like a keyword must not be mistaken for it.
		{"/subscriptions/s/resourceGroups/providers/providers/Microsoft.Network/routeTables/resourceGroups",
			"s", "providers", "Microsoft.Network/routeTables", "resourceGroups", "resourceGroups"},
	}
	for _, tt := range tests {
		id, err := ParseID(tt.in)
		if err != nil {
			t.Errorf("ParseID(%q): %v", tt.in, err)
			continue
		}
		if id.Subscription() != tt.sub || id.ResourceGroup() != tt.group ||
			id.Type() != tt.resourceType || id.Name() != tt.name || id.Short() != tt.short {
			t.Errorf("ParseID(%q) = sub %q, group %q, type %q, name %q, short %q", tt.in,
				id.Subscription(), id.ResourceGroup(), id.Type(), id.Name(), id.Short())
		}
		for _, other := range tests {
			if is := id.Is(other.resourceType); is != strings.EqualFold(tt.resourceType,
				other.resourceType) {
				t.Errorf("%q is a %s: %t", tt.in, other.resourceType, is)
			}
		}
		if id.Is(tt.resourceType+"/more") || id.Is(tt.resourceType[:len(tt.resourceType)-1]) {
			t.Errorf("%q is of another type, too", tt.in)
		}
	}
	for _, bad := range []string{
		"", "/", "rt", " /subscriptions/s", "/subscriptions/", "/subscriptions/s/resourceGroups",
		"/subscriptions/s/other/x",
		"/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/routeTables",
		"/subscriptions/s/providers/Microsoft.Network",
		"/subscriptions/s/resourceGroups/../providers/Microsoft.Network/routeTables/rt",
		"/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/routeTables/rt?api-version=1",
		"/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/routeTables/%2e%2e",
		"https://example.com/subscriptions/s",
	} {
		if id, err := ParseID(bad); err == nil {
			t.Errorf("ParseID(%q) = %q, want an error", bad, id)
		}
	}
}

func TestIDEqualParent(t *testing.T) {
	a := ID("/subscriptions/S/resourceGroups/RG/providers/Microsoft.Network/virtualNetworks/V/subnets/x")
	b := ID("/subscriptions/s/resourcegroups/rg/providers/microsoft.network/virtualnetworks/v/subnets/X")
	if !a.Equal(b) || a.Key() != b.Key() {
		t.Error("IDs that differ in case only must be equal")
	}
	if a.Equal(b.Parent()) {
		t.Error("a subnet is not its VNet")
	}
	var chain []string
	for id := a; id != ""; id = id.Parent() {
		chain = append(chain, id.Short())
	}
	if got := strings.Join(chain, " < "); got != "V/x < V < RG < S" {
		t.Errorf("parents: %s", got)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("/subscriptions/s/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets/x")
	f.Add("/subscriptions//s/")
	f.Add("/subscriptions/s/resourceGroups/rg")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			return
		}
		again, err := ParseID(string(id))
		if err != nil || again != id {
			t.Fatalf("ParseID(%q) = %q, and that parses to %q, %v", s, id, again, err)
		}
		if !id.Equal(ID(strings.ToUpper(string(id)))) &&
			strings.ToLower(strings.ToUpper(string(id))) == id.Key() {
			t.Fatalf("%q is not equal to itself in capitals", id)
		}
		if id.Subscription() == "" || id.Name() == "" || id.Type() == "" {
			t.Fatalf("%q has no subscription, name or type", id)
		}
		if parent := id.Parent(); parent != "" {
			if _, err := ParseID(string(parent)); err != nil {
				t.Fatalf("the parent %q of %q is not an ID: %v", parent, id, err)
			}
		}
		if strings.Contains(string(id), "//") || strings.Contains(string(id), "/../") {
			t.Fatalf("%q is not clean", id)
		}
	})
}

// TestLookup: what Key finds in a map, Lookup finds, however the ID is spelled.
func TestLookup(t *testing.T) {
	long := GroupID("sub", strings.Repeat("Long", 100))
	for _, id := range []ID{"", "/subscriptions/A/resourceGroups/Shop-RG",
		"/subscriptions/a/resourceGroups/ÄPFEL-İK", long} {
		in := map[string]int{id.Key(): 1}
		for _, spelled := range []ID{id, ID(strings.ToLower(string(id))),
			ID(strings.ToUpper(string(id)))} {
			want, wanted := in[spelled.Key()]
			if got, there := Lookup(in, spelled); got != want || there != wanted {
				t.Errorf("Lookup of %s finds %d, %t, and its Key %d, %t", spelled, got, there, want,
					wanted)
			}
		}
		if _, there := Lookup(in, id+"x"); there {
			t.Errorf("Lookup finds %s by another ID", id)
		}
	}
}

// TestKey: a key is the ID in lower case, wherever in it a character is.
func TestKey(t *testing.T) {
	for c := range rune(0x180) {
		for n := range 20 {
			id := ID("/" + strings.Repeat("Ab", n/2) + string(c) + strings.Repeat("z", n%10))
			if want := strings.ToLower(string(id)); id.Key() != want {
				t.Fatalf("the key of %q is %q, want %q", id, id.Key(), want)
			}
		}
	}
}
