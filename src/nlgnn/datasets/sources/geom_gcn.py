"""Entries of the Geom-GCN project: WebKB, Actor and the two Wikipedia graphs as text files, and its split files."""

from __future__ import annotations

from nlgnn.datasets.dataset import Dataset, RemoteFile, Statistics, remote_file

# PyG follows the branch head for WebKB and Actor: whatever comes from there, the checksum decides.
REPOSITORY = "https://raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn"
HEAD = f"{REPOSITORY}/master"
# The last commit that holds Chameleon, Squirrel and the first Cornell.
BEFORE_JULY_2022 = f"{REPOSITORY}/f1fc0d14b3b019c562737240d06ec83b07d16a8f"

LICENCE = "none stated; the project asks to cite the original data"
GEOM_GCN = "Pei et al., Geom-GCN: Geometric Graph Convolutional Networks, ICLR 2020"
WEBKB = f"Craven et al., Learning to Extract Symbolic Knowledge from the World Wide Web, AAAI 1998; files: {GEOM_GCN}"
WIKIPEDIA = (
    "Rozemberczki, Allen, Sarkar, Multi-scale Attributed Node Embedding, Journal of Complex Networks 2021; "
    f"files: {GEOM_GCN}"
)
ACTOR = f"Tang et al., Social Influence Analysis in Large-scale Networks, KDD 2009; files: {GEOM_GCN}"

SPLIT_SHARES = "The fixed splits hold 48/32/20 percent of the nodes, although their file names say 60/20."
WEBKB_CLASSES = "The classes are page types: student, project, course, staff, faculty; the files give numbers only."


def split_files(file_name: str, base: str) -> tuple[RemoteFile, ...]:
    """The ten fixed splits; the Planetoid graphs have theirs here too."""
    names = [f"splits/{file_name}_split_0.6_0.2_{index}.npz" for index in range(10)]
    return tuple(remote_file(f"geom-gcn/{name}", f"{base}/{name}") for name in names)


def text_files(file_name: str, base: str, folder: str = "geom-gcn") -> tuple[RemoteFile, ...]:
    """Nodes, edges and splits, in the order in which the reader takes them; `folder` is where the tables lie here."""
    names = [f"new_data/{file_name}/out1_{table}.txt" for table in ("node_feature_label", "graph_edges")]
    tables = tuple(remote_file(f"{folder}/{name}", f"{base}/{name}") for name in names)
    return tables + split_files(file_name, base)


def web_pages(
    name: str,
    files: tuple[RemoteFile, ...],
    statistics: Statistics,
    citation: str,
    *quirks: str,
) -> Dataset:
    """Pages and hyperlinks: the direction of an edge means something."""
    return Dataset(
        name=name,
        files=files,
        reader="geom-gcn",
        statistics=statistics,
        licence=LICENCE,
        citation=citation,
        quirks=(*quirks, SPLIT_SHARES),
        protocols=("geom-gcn",),
        directed=True,
    )


DATASETS = (
    web_pages(
        "texas",
        text_files("texas", HEAD),
        Statistics(nodes=183, edges=279, features=1703, classes=5, homophily=0.057),
        WEBKB,
        WEBKB_CLASSES,
        "One class has a single node, which no split can put into both training and test.",
        "With 37 to 39 test nodes one prediction is worth more than two points.",
    ),
    web_pages(
        "cornell",
        text_files("cornell", HEAD),
        Statistics(nodes=183, edges=277, features=1703, classes=5, homophily=0.111),
        WEBKB,
        WEBKB_CLASSES,
        "This is the file corrected in July 2022; older publications, the paper's own table among them, trained on "
        "cornell-pre2022.",
    ),
    web_pages(
        "cornell-pre2022",
        text_files("cornell", BEFORE_JULY_2022, "geom-gcn/cornell_pre2022"),
        Statistics(nodes=183, edges=277, features=1703, classes=5, homophily=0.301),
        WEBKB,
        "A faulty file, kept to repeat published figures: features and labels are those of Texas, byte for byte, laid "
        "over Cornell's links.",
        "One class has a single node, as in Texas.",
    ),
    web_pages(
        "wisconsin",
        text_files("wisconsin", HEAD),
        Statistics(nodes=251, edges=450, features=1703, classes=5, homophily=0.155),
        WEBKB,
        WEBKB_CLASSES,
    ),
    Dataset(
        name="actor",
        files=text_files("film", HEAD),
        reader="geom-gcn-lists",
        statistics=Statistics(nodes=7600, edges=26659, features=932, classes=5, homophily=0.220),
        licence=LICENCE,
        citation=ACTOR,
        quirks=(
            "The files call it film.",
            "Node numbers are not in order in the file, and edges repeat: 33391 lines, 30019 of them distinct.",
            "An edge means that two actors occur on one page, so its direction is taken to mean nothing.",
            "The header promises 931 features, but indices run from 0 to 931.",
            "The paper prints H(G) 0.24; no way of counting gives more than 0.23 on the public file.",
            SPLIT_SHARES,
        ),
        protocols=("geom-gcn",),
    ),
    web_pages(
        "chameleon",
        text_files("chameleon", BEFORE_JULY_2022),
        Statistics(nodes=2277, edges=31371, features=2325, classes=5, homophily=0.247),
        WIKIPEDIA,
        "1291 nodes have exactly the neighbours and label of another node; half of the test nodes have such a twin in "
        "training. Show chameleon-filtered beside it.",
    ),
    web_pages(
        "squirrel",
        text_files("squirrel", BEFORE_JULY_2022),
        Statistics(nodes=5201, edges=198353, features=2089, classes=5, homophily=0.217),
        WIKIPEDIA,
        "2573 nodes have exactly the neighbours and label of another node; 40 percent of the test nodes have such a "
        "twin in training. Show squirrel-filtered beside it.",
    ),
)
