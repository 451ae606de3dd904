package finding

// azureCNI are the codes of Azure CNI clusters.
var azureCNI = []Description{}
