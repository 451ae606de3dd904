package bundle

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
)

// secretive are parts of field names whose text is taken out. ARM never returns most of them; a field that it will return some day
// is not to be the first to be given away.
var secretive = []string{"password", "secret", "token", "credential", "customdata", "userdata", "protectedsettings", "privatekey", "keydata", "accesskey", "sharedkey", "connectionstring"}

// keyed is an address with a password, or with a key to what it leads to.
var keyed = regexp.MustCompile(`(?i)://[^/?#\s]*@|[?&](sig|code|key|\w*token)=`)

// gatewayKept are the properties of an Application Gateway that stay. Others hold certificates, headers that it sends, and addresses that it
// sends on to.
var gatewayKept = []string{"provisioningState", "resourceGuid", "sku", "operationalState", "enableApplicationGatewayNetworkIsolation", "gatewayIPConfigurations", "frontendIPConfigurations"}

// removed stands in the place of what was taken out.
const removed = "(removed)"

// redact takes the text of secretive fields, the settings of add-ons, addresses with keys in them, and all tags but those of AKS and Virtual
// Network Manager, out of a document; everything else stays, its fields sorted.
func redact(raw []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	if top, ok := document.(map[string]any); ok {
		id, _ := top["id"].(string)
		if properties, ok := top["properties"].(map[string]any); ok && arm.ID(id).Is(arm.TypeGateway) {
			maps.DeleteFunc(properties, func(name string, _ any) bool { return !slices.Contains(gatewayKept, name) })
		}
	}
	clean(document, false)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// clean replaces text in place: that of fields with secretive names, and that of lists in them.
func clean(value any, secret bool) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			switch inside, _ := inner.(map[string]any); {
			case inside != nil && strings.EqualFold(name, "tags"):
				maskTags(inside)
			case inside != nil && strings.EqualFold(name, "addonProfiles"):
				maskSettings(inside)
			}
			v[name] = clean(inner, isSecretive(name))
		}
	case []any:
		for i, inner := range v {
			v[i] = clean(inner, secret)
		}
	case string:
		if secret && v != "" || keyed.MatchString(v) {
			return removed
		}
	}
	return value
}

// maskTags takes out what people wrote into tags.
func maskTags(tags map[string]any) {
	for name := range tags {
		if lower := strings.ToLower(name); !strings.HasPrefix(lower, "aks-") && !strings.Contains(lower, "avnm") {
			tags[name] = removed
		}
	}
}

// maskSettings takes out the settings of a cluster's add-ons, but for the resources they name.
func maskSettings(addons map[string]any) {
	for _, addon := range addons {
		profile, _ := addon.(map[string]any)
		settings, _ := profile["config"].(map[string]any)
		for name, setting := range settings {
			if text, _ := setting.(string); !strings.HasPrefix(text, "/subscriptions/") {
				settings[name] = removed
			}
		}
	}
}

func isSecretive(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(secretive, func(part string) bool { return strings.Contains(lower, part) })
}
