from .encoder import FeatureEncoder as FeatureEncoder
from .graph_files import read_graph_file as read_graph_file
from .read import TableGraph as TableGraph
from .read import read_graph as read_graph
from .stacked import stack_tables as stack_tables
from .table import Table as Table
from .table import read_table as read_table
