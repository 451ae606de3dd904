package build

import (
	"fmt"
	"slices"
)

// Field is the path of a field in the spec of a v1alpha1.Cluster, such as nodeSubnet or
// pools[0].count; name is metadata.name.
type Field string

// Fields that are named in several places.
const (
	fieldSpace    Field = "addressSpace"
	fieldNodes    Field = "nodeSubnet"
	fieldPods     Field = "podSubnet"
	fieldGateway  Field = "gatewaySubnet"
	fieldPodCIDR  Field = "podCIDR"
	fieldServices Field = "serviceCIDR"
	fieldEgress   Field = "egress"
	fieldLocation Field = "location"

	fieldVNetSubnet  Field = "vnetSubnetID"
	fieldPodSubnetID Field = "podSubnetID"
	fieldGatewayID   Field = "appgwSubnetID"
	fieldAppGateway  Field = "applicationGateway"
)

func poolField(i int, name string) Field { return Field(fmt.Sprintf("pools[%d].%s", i, name)) }

// Error says which field is wrong. Callers have other names for fields, such as flags. Problem uses
// those.
type Error struct {
	Field  Field
	format string
	args   []any
}

func wrong(field Field, format string, args ...any) error {
	return &Error{Field: field, format: format, args: args}
}

// Problem says what is wrong and what was expected; name names the other fields in it.
func (e *Error) Problem(name func(Field) string) string {
	args := slices.Clone(e.args)
	for i, a := range args {
		if f, is := a.(Field); is {
			args[i] = name(f)
		}
	}
	return fmt.Sprintf(e.format, args...)
}

func (e *Error) Error() string {
	return string(e.Field) + ": " + e.Problem(func(f Field) string { return string(f) })
}
