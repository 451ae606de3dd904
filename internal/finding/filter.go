package finding

// filters are the codes of network security groups.
var filters = []Description{}
