"""Entries of the LINKX project: Facebook 100, Twitch and patents."""

from __future__ import annotations

from nlgnn.datasets.dataset import Dataset, Statistics, remote_file

REPOSITORY = "https://github.com/CUAI/Non-Homophily-Large-Scale/raw"
HEAD = f"{REPOSITORY}/master/data"  # PyG's address
PINNED = f"{REPOSITORY}/82f8f05c5c3ec16bd5b505cc7ad62ab5e09051e6/data"  # for the files that PyG does not know
DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="  # the form in which PyG asks for large files

LICENCE = "none stated"
PROJECT = (
    "Lim et al., Large Scale Learning on Non-Homophilous Graphs: New Benchmarks and Strong Simple Methods, NeurIPS 2021"
)

DATASETS = (
    Dataset(
        name="twitch-de",
        files=(
            remote_file("linkx/twitch/DE/musae_DE_target.csv", f"{PINNED}/twitch/DE/musae_DE_target.csv"),
            remote_file("linkx/twitch/DE/musae_DE_features.json", f"{PINNED}/twitch/DE/musae_DE_features.json"),
            remote_file("linkx/twitch/DE/musae_DE_edges.csv", f"{PINNED}/twitch/DE/musae_DE_edges.csv"),
            remote_file("linkx/splits/twitch-e-DE-splits.npy", f"{PINNED}/splits/twitch-e-DE-splits.npy"),
        ),
        reader="twitch",
        statistics=Statistics(nodes=9498, edges=153138, features=3170, classes=2, homophily=0.596),
        licence=LICENCE,
        citation="Rozemberczki, Allen, Sarkar, Multi-scale Attributed Node Embedding, Journal of Complex Networks "
        f"2021; splits: {PROJECT}",
        quirks=(
            "All 3170 columns are kept; the LINKX program drops those that are empty in one country's graph.",
            "The LINKX program reports ROC-AUC on it.",
        ),
        protocols=("linkx",),
        default_protocol="linkx",
        metric="roc-auc",
    ),
    Dataset(
        name="cornell5",
        files=(remote_file("linkx/facebook100/Cornell5.mat", f"{HEAD}/facebook100/Cornell5.mat"),),
        reader="fb100",
        statistics=Statistics(nodes=18660, edges=790777, features=4735, classes=2, homophily=0.558),
        licence=LICENCE,
        citation=f"Traud, Mucha, Porter, Social Structure of Facebook Networks, Physica A 2012; files: {PROJECT}",
        quirks=(
            "Not the web pages of Cornell but its Facebook friendships of 2005; the label is the gender entered.",
            "Nodes without that entry have an unknown label; H(G) is over the others and the edges between them.",
            "There is no public fixed split, so random-60 is the default.",
        ),
    ),
    Dataset(
        name="snap-patents",
        # Both addresses are those in the LINKX program; neither file could be downloaded to take its checksum.
        files=(
            remote_file("linkx/snap_patents.mat", f"{DRIVE}1ldh23TSY1PwXia6dU0MYcpyEgX-w3Hia"),
            remote_file("linkx/splits/snap-patents-splits.npy", f"{DRIVE}12xbBRqd8mtG_XkNLH8dRRNZJvVM4Pw-N"),
        ),
        reader="snap-patents",
        statistics=Statistics(nodes=2923922, edges=None, features=269, classes=5, measured=False),
        licence=LICENCE,
        citation=f"Leskovec, Kleinberg, Faloutsos, Graphs over Time, KDD 2005; files: {PROJECT}",
        quirks=(
            "Classes are the years of granting, cut at their quintiles, so that class sizes are only about equal.",
            "There are about 14 million directed citations.",
            "No copy was at hand when this was written: sizes are the authors', and there is no checksum.",
        ),
        protocols=("linkx",),
        default_protocol="linkx",
        directed=True,
    ),
)
