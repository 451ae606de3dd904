package bundle

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"routekeeper.dev/routekeeper/internal/arm"
	"routekeeper.dev/routekeeper/internal/lazy"
)

// secretive are parts of the names of fields whose text is removed. ARM returns few of these fields
// today; the list also covers fields that it may return later.
var secretive = []string{"password", "secret", "token", "credential", "customdata", "userdata",
	"protectedsettings", "privatekey", "keydata", "accesskey", "sharedkey", "connectionstring"}

// keyed matches an address that contains a password or a key.
var keyed = lazy.Regexp(`(?i)://[^/?#\s]*@|[?&](sig|code|key|\w*token)=`)

// gatewayFields are the properties of an Application Gateway that stay. Others hold certificates,
// headers and backend addresses.
var gatewayFields = []string{"provisioningState", "resourceGuid", "sku", "operationalState",
	"enableApplicationGatewayNetworkIsolation", "gatewayIPConfigurations",
	"frontendIPConfigurations"}

// extensionFields are the properties of a cluster extension that stay. Its settings may hold
// secrets under any name.
var extensionFields = []string{"provisioningState", "extensionType", "version", "releaseTrain",
	"autoUpgradeMinorVersion", "isSystemExtension"}

// allowed has, by type, the properties that stay. Types that are missing keep all of theirs.
var allowed = map[string][]string{arm.TypeGateway: gatewayFields,
	arm.TypeExtension: extensionFields}

// removed replaces removed text.
const removed = "(removed)"

// redact removes from a document the text of secretive fields, the settings of add-ons, addresses
// with keys, and all tags except those of AKS and Virtual Network Manager. Everything else stays;
// fields are sorted.
func redact(raw []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	if top, ok := document.(map[string]any); ok {
		id, _ := top["id"].(string)
		properties, _ := top["properties"].(map[string]any)
		for kind, fields := range allowed {
			if arm.ID(id).Is(kind) {
				maps.DeleteFunc(properties, func(name string, _ any) bool {
					return !slices.Contains(fields, name)
				})
			}
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

// clean replaces the text of secretive fields, and of lists in them, in place.
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
		if secret && v != "" || keyed().MatchString(v) {
			return removed
		}
	}
	return value
}

// maskTags removes the tags that users wrote.
func maskTags(tags map[string]any) {
	for name := range tags {
		if lower := strings.ToLower(name); !strings.HasPrefix(lower, "aks-") &&
			!strings.Contains(lower, "avnm") {
			tags[name] = removed
		}
	}
}

// maskSettings removes the settings of a cluster's add-ons, except the resources that they name.
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
	return slices.ContainsFunc(secretive, func(part string) bool {
		return strings.Contains(lower, part)
	})
}
