"""The key that joins a bill's resource to a node: one rule for provider ids and resource ids.

AWS and others: the last part in lower case. Azure: the whole path in lower case. Google: project, zone, name.
"""

import pyarrow as pa
import pyarrow.compute as pc


def node_keys(ids: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The join key of each provider id or resource id; null stays null.

    >>> ids = pa.array(["aws:///us-east-1a/i-0AbC", "arn:aws:ec2:us-east-1:1:instance/i-0abc", "gce://p/z/n", None])
    >>> node_keys(ids).to_pylist()
    ['i-0abc', 'i-0abc', 'gce:p/z/n', None]
    >>> azure = "/subscriptions/S/resourceGroups/G/providers/Microsoft.Compute/virtualMachines/vm"
    >>> node_keys(pa.array([azure, "azure://" + azure.lower()])).unique().to_pylist()
    ['/subscriptions/s/resourcegroups/g/providers/microsoft.compute/virtualmachines/vm']
    """
    lower = pc.utf8_trim_whitespace(pc.utf8_lower(ids))
    paths = pc.fill_null(pc.match_substring(lower, "/"), False)
    if not pc.any(paths).as_py():
        return lower
    return pc.replace_with_mask(lower, paths, _of_paths(pc.filter(lower, paths)))


def _of_paths(lower: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The keys of ids with a slash in them."""
    if isinstance(lower, pa.ChunkedArray):
        lower = lower.combine_chunks()
    lower = pc.replace_substring_regex(lower, r"^azure://", "")
    lower = pc.replace_substring_regex(lower, r"^gce://", "gce:")
    lower = pc.replace_substring_regex(lower, r"^.*projects/([^/]+)/zones/([^/]+)/instances/([^/]+)$", r"gce:\1/\2/\3")
    whole = pc.or_(pc.match_substring_regex(lower, r"^/?subscriptions/"), pc.starts_with(lower, "gce:"))
    path = pc.replace_substring_regex(lower, r"^(?:subscriptions/)", "/subscriptions/")
    last = pc.replace_substring_regex(lower, r"^.*/", "")
    return pc.if_else(whole, path, last)
